//! iceberg-rust as a client: it reads a command in each line, and writes an answer in each line.
//!
//!     client ADDRESS TOKEN

use std::collections::HashMap;
use std::io::BufRead;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use iceberg::spec::{DataFileFormat, NestedField, PrimitiveType, Schema, Type};
use iceberg::table::Table;
use iceberg::transaction::{AddColumn, ApplyTransactionAction, Transaction};
use iceberg::writer::base_writer::data_file_writer::DataFileWriterBuilder;
use iceberg::writer::file_writer::ParquetWriterBuilder;
use iceberg::writer::file_writer::location_generator::{DefaultFileNameGenerator, DefaultLocationGenerator};
use iceberg::writer::file_writer::rolling_writer::RollingFileWriterBuilder;
use iceberg::writer::{IcebergWriter, IcebergWriterBuilder};
use iceberg::{Catalog, CatalogBuilder, Error, ErrorKind, NamespaceIdent, Result, TableCreation, TableIdent};
use iceberg_catalog_rest::{RestCatalog, RestCatalogBuilder};
use iceberg_storage_opendal::OpenDalResolvingStorageFactory;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

fn name(text: &str) -> Result<TableIdent> {
    TableIdent::from_strs(text.split('.'))
}

fn schema() -> Result<Schema> {
    Schema::builder()
        .with_fields(vec![
            NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long)).into(),
            NestedField::optional(2, "name", Type::Primitive(PrimitiveType::String)).into(),
        ])
        .build()
}

async fn read(table: &Table, snapshot: Option<i64>) -> Result<Value> {
    let mut scan = table.scan().select(["id"]);
    if let Some(id) = snapshot {
        scan = scan.snapshot_id(id);
    }
    let batches: Vec<RecordBatch> = scan.build()?.to_arrow().await?.try_collect().await?;
    let mut ids = vec![];
    for batch in &batches {
        let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        ids.extend(column.iter());
    }
    Ok(json!(ids))
}

async fn append(catalog: &RestCatalog, table: &Table) -> Result<()> {
    let metadata = table.metadata();
    let schema = metadata.current_schema().clone();
    let files = RollingFileWriterBuilder::new_with_default_file_size(
        ParquetWriterBuilder::new(WriterProperties::default(), schema.clone()),
        table.file_io().clone(),
        DefaultLocationGenerator::new(metadata)?,
        DefaultFileNameGenerator::new(format!("rust-{}", std::process::id()), None, DataFileFormat::Parquet),
    );
    let mut writer = DataFileWriterBuilder::new(files).build(None).await?;
    let arrow_schema = Arc::new(iceberg::arrow::schema_to_arrow_schema(&schema)?);
    let columns: Vec<arrow_array::ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![10])), Arc::new(StringArray::from(vec!["new"]))];
    let batch = RecordBatch::try_new(arrow_schema, columns)
        .map_err(|error| Error::new(ErrorKind::DataInvalid, error.to_string()))?;
    writer.write(batch).await?;
    let written = writer.close().await?;
    let change = Transaction::new(table);
    let change = change.fast_append().add_data_files(written).apply(change)?;
    change.commit(catalog).await?;
    Ok(())
}

async fn run(catalog: &RestCatalog, words: &[&str]) -> Result<Value> {
    match words {
        ["create-namespace", text] => {
            catalog.create_namespace(&NamespaceIdent::from_strs(text.split('.'))?, HashMap::new()).await?;
        }
        ["create-table", text] => {
            let table = name(text)?;
            let creation = TableCreation::builder().name(table.name().to_string()).schema(schema()?).build();
            catalog.create_table(table.namespace(), creation).await?;
        }
        ["drop-table", text] => catalog.drop_table(&name(text)?).await?,
        ["rename-table", old, new] => catalog.rename_table(&name(old)?, &name(new)?).await?,
        ["read", text] => return read(&catalog.load_table(&name(text)?).await?, None).await,
        ["read-snapshot", text, id] => {
            return read(&catalog.load_table(&name(text)?).await?, id.parse().ok()).await;
        }
        ["read-tag", text, tag] => {
            let table = catalog.load_table(&name(text)?).await?;
            let id = table.metadata().snapshot_for_ref(tag).map(|one| one.snapshot_id());
            return read(&table, id.or(Some(-1))).await;
        }
        ["append", text] => append(catalog, &catalog.load_table(&name(text)?).await?).await?,
        ["add-column", text] => {
            let table = catalog.load_table(&name(text)?).await?;
            let change = Transaction::new(&table);
            let column = AddColumn::optional("more", Type::Primitive(PrimitiveType::Int));
            let change = change.update_schema().add_column(column).apply(change)?;
            change.commit(catalog).await?;
        }
        _ => return Err(Error::new(ErrorKind::FeatureUnsupported, format!("unknown command {words:?}"))),
    }
    Ok(Value::Null)
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let delegation = "vended-credentials".to_string();
    let settings =
        [("uri", &arguments[1]), ("token", &arguments[2]), ("header.x-iceberg-access-delegation", &delegation)];
    let catalog = RestCatalogBuilder::default()
        .with_storage_factory(Arc::new(OpenDalResolvingStorageFactory::default()))
        .load("lake", settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
        .await
        .expect("the catalog cannot be opened");
    for line in std::io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line.unwrap()).unwrap();
        let answer = match run(&catalog, &text.split_whitespace().collect::<Vec<_>>()).await {
            Ok(found) => json!({ "found": found }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        println!("{answer}");
    }
}
