"""Plain Spark reads and writes tables of a lakehouse as `format("mangrove")`, without calling anything of ours."""

import datetime
import decimal
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

import mangrove
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.locators import Locator
from mangrove.spark.data_source import MangroveSource
from mangrove.spark.registration import attach, register
from mangrove.spark.source_options import parse_options

COLUMNS = "order_id bigint not null, customer string, amount decimal(10,2), ts timestamp"
NOON = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """The session as it is: Spark finds the format, and is told of it a second time by whoever has a lakehouse."""
    return register(register(spark))


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    made = mangrove.create(tmp_path / "lake")
    made.create_namespace("sales")
    made.create_table("sales.orders", COLUMNS, keys=["order_id"], partition_by=["bucket(2, order_id)"])
    return made


def order(number: int, customer: str | None = "ana", amount: str = "1.50") -> dict[str, Any]:
    return {"order_id": number, "customer": customer, "amount": decimal.Decimal(amount), "ts": NOON}


def loaded(session: SparkSession, lake: Lakehouse, **options: Any) -> DataFrame:
    return session.read.format("mangrove").options(lake=lake.uri, **options).load("sales.orders")


def saved(frame: DataFrame, lake: Lakehouse, mode: str = "append", **options: Any) -> None:
    frame.write.format("mangrove").options(lake=lake.uri, **options).mode(mode).save("sales.orders")


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row.order_id for row in frame.collect())


@pytest.mark.interop
def test_rows_are_read_at_any_version_with_the_requested_columns_and_filter(
    session: SparkSession, lake: Lakehouse
) -> None:
    orders = lake.table("sales.orders")
    orders.append([order(number) for number in range(4)])
    before = lake.version
    orders.upsert([order(1, "bo", "9.00"), order(7, None)])
    orders.delete_keys([{"order_id": 0}])
    found = loaded(session, lake)
    assert numbers(found) == [1, 2, 3, 7]
    assert found.where("order_id = 1").collect()[0].asDict() == order(1, "bo", "9.00") | {
        "ts": NOON.replace(tzinfo=None)
    }
    assert numbers(loaded(session, lake, version=before)) == [0, 1, 2, 3]
    assert numbers(loaded(session, lake, where="customer = 'ana' and order_id > 2")) == [3]
    narrow = loaded(session, lake, columns="amount, order_id")
    assert narrow.columns == ["amount", "order_id"]
    assert numbers(narrow.where("amount > 5")) == [1]
    moment = lake.at(before).created_at.isoformat()
    assert numbers(loaded(session, lake, timestamp=moment)) == [0, 1, 2, 3]


@pytest.mark.interop
def test_rows_are_appended_upserted_and_overwritten_each_in_one_version(session: SparkSession, lake: Lakehouse) -> None:
    frame = session.sql(
        "select id as order_id, 'ana' as customer, cast(id as decimal(10,2)) as amount, "
        "timestamp '2026-11-01 12:00:00' as ts from range(0, 10, 1, 3)"
    )
    before = lake.version
    saved(frame, lake)
    assert lake.version == before + 1
    newer = frame.where("order_id > 7").selectExpr("order_id + 1 as order_id", "'bo' customer", "amount", "ts")
    saved(newer, lake, operation="upsert")
    orders = lake.table("sales.orders")
    assert orders.to_arrow().num_rows == 11
    assert sorted(orders.to_arrow(where="customer = 'bo'").column("order_id").to_numpy().tolist()) == [9, 10]
    saved(frame.where("order_id < 2"), lake, "overwrite")
    assert sorted(orders.to_arrow().column("order_id").to_numpy().tolist()) == [0, 1]
    saved(frame.where("order_id < 0"), lake, "overwrite")
    assert orders.to_arrow().num_rows == 0
    assert lake.version == before + 4
    assert lake.maintenance.check().is_sound


@pytest.mark.interop
def test_a_frame_reads_one_version_regardless_of_earlier_filters(session: SparkSession, lake: Lakehouse) -> None:
    orders = lake.table("sales.orders")
    orders.append([order(1)])
    orders.append([order(1000)])
    frame = loaded(session, lake)
    assert numbers(frame.where("order_id = 1")) == [1]
    orders.append([order(2)])
    assert numbers(frame) == [1, 1000]
    assert numbers(loaded(session, lake)) == [1, 2, 1000]


@pytest.mark.interop
def test_files_pruned_by_the_option_where_are_not_opened(
    session: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    orders = lake.table("sales.orders")
    orders.append([order(1)])
    orders.append([order(1000)])
    wanted = {file.location for file in orders.scan("order_id < 10").files()}
    for path in (tmp_path / "lake" / "data").rglob("*.parquet"):
        if path.relative_to(tmp_path / "lake").as_posix() not in wanted:
            path.unlink()
    assert numbers(loaded(session, lake, where="order_id < 10 and customer is not null")) == [1]


@pytest.mark.interop
def test_a_temporary_view_is_selected_from_and_inserted_into_by_plain_sql(
    session: SparkSession, lake: Lakehouse
) -> None:
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW o USING mangrove OPTIONS (lake '{lake.uri}', table 'sales.orders')")
    session.sql("INSERT INTO o VALUES (1, 'ana', 2.5, timestamp '2026-11-01'), (2, null, null, null)")
    assert session.sql("SELECT sum(order_id) FROM o").collect()[0][0] == 3
    session.sql("INSERT OVERWRITE o SELECT order_id + 10, customer, amount, ts FROM o WHERE order_id = 1")
    assert lake.table("sales.orders").to_arrow().column("order_id").to_pylist() == [11]
    session.sql("DROP VIEW o")


@pytest.mark.interop
def test_an_attached_table_takes_every_insert_of_spark(session: SparkSession, lake: Lakehouse) -> None:
    other = lake.create_table("sales.copies", COLUMNS)
    name = attach(session, lake.uri, "sales.orders", "orders_of_lake")
    copies = attach(session, lake.uri, "sales.copies", "copies_of_lake")
    session.sql(f"INSERT INTO {name} VALUES (1, 'ana', 2.5, null), (2, 'bo', 1, null)")
    session.sql(f"INSERT INTO {name} (order_id) VALUES (3)")
    # The columns are the same by name and type, so Spark passes the rows on as they are.
    session.sql(f"INSERT INTO {copies} SELECT * FROM {name}")
    session.table(name).writeTo(copies).append()
    assert (numbers(session.table(name)), other.to_arrow().num_rows) == ([1, 2, 3], 6)
    session.sql(f"INSERT OVERWRITE {copies} SELECT * FROM {name} WHERE order_id = 2")
    assert other.to_arrow().column("customer").to_pylist() == ["bo"]
    lake.table("sales.orders").update_schema().add_column("note", "string").commit()
    assert attach(session, lake.uri, "sales.orders", "orders_of_lake") == name
    assert session.table(name).columns[-1] == "note"
    for made in (name, copies):
        session.sql(f"DROP TABLE {made}")


@pytest.mark.interop
def test_a_table_created_with_options_is_read_and_never_written_to_a_wrong_location(
    session: SparkSession, lake: Lakehouse
) -> None:
    lake.table("sales.orders").append([order(1)])
    options = f"OPTIONS (lake '{lake.uri}', table 'sales.orders')"
    session.sql(f"CREATE TABLE made_with_options USING mangrove {options}")
    try:
        assert numbers(session.table("made_with_options")) == [1]
        version = lake.version
        with pytest.raises(PySparkException, match=r"WITH \(lake = '…', table = '…'\).*registration\.attach"):
            session.sql("INSERT INTO made_with_options VALUES (2, 'x', 1, null)")
        assert lake.version == version
        with_options = f"WITH (lake = '{lake.uri}', table = 'sales.orders')"
        session.sql(f"INSERT INTO made_with_options {with_options} VALUES (2, 'x', 1, null)")
        session.table("made_with_options").where("order_id = 2").writeTo("made_with_options").options(
            lake=lake.uri, table="sales.orders"
        ).append()
        assert numbers(session.table("made_with_options")) == [1, 2, 2]
    finally:
        session.sql("DROP TABLE made_with_options")


@pytest.mark.interop
def test_a_statement_can_set_options_of_a_table(session: SparkSession, lake: Lakehouse) -> None:
    lake.table("sales.orders").append([order(1), order(2)])
    before = lake.version
    name = attach(session, lake.uri, "sales.orders", "orders_with_options")
    try:
        session.sql(f"INSERT INTO {name} WITH (operation = 'upsert') VALUES (2, 'bo', 1, null), (3, 'cy', 1, null)")
        assert numbers(session.table(name)) == [1, 2, 3]
        assert numbers(session.sql(f"SELECT * FROM {name} WITH (version = '{before}')")) == [1, 2]
        assert numbers(session.sql(f"SELECT * FROM {name} WITH (where = 'order_id < 3')")) == [1, 2]
        assert numbers(session.read.option("version", str(before)).table(name)) == [1, 2]
    finally:
        session.sql(f"DROP TABLE {name}")


def read_nothing(session: SparkSession, lake: Lakehouse) -> None:
    session.read.format("mangrove").load("nope")


def read_unknown(session: SparkSession, lake: Lakehouse) -> None:
    session.read.format("mangrove").options(lake=lake.uri).load("sales.ordres")


def read_with_wrong_option(session: SparkSession, lake: Lakehouse) -> None:
    loaded(session, lake, versoin=3)


def read_wrongly_filtered(session: SparkSession, lake: Lakehouse) -> None:
    loaded(session, lake, where="custmer = 'ana'").collect()


def write_as_a_table_of_spark(session: SparkSession, lake: Lakehouse) -> None:
    session.sql("SELECT 1L AS order_id").write.format("mangrove").option("lake", lake.uri).saveAsTable("new_name")


def create_a_table_of_spark(session: SparkSession, lake: Lakehouse) -> None:
    session.sql("SELECT 1L AS order_id").writeTo("new_name").using("mangrove").option("lake", lake.uri).create()


def write_unknown_column(session: SparkSession, lake: Lakehouse) -> None:
    saved(session.sql("SELECT 1L AS order_id, 'x' AS custmer"), lake)


def write_without_key(session: SparkSession, lake: Lakehouse) -> None:
    saved(session.sql("SELECT cast(null AS bigint) AS order_id"), lake)


def write_key_twice(session: SparkSession, lake: Lakehouse) -> None:
    rows = "SELECT 1L AS order_id, 'x' AS customer, 1.0 AS amount, current_timestamp() AS ts FROM range(0, 2, 1, 2)"
    saved(session.sql(rows), lake, operation="upsert")


@pytest.mark.interop
@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (read_nothing, 'the option "lake" is missing'),
        (read_unknown, "table sales.ordres does not exist; did you mean sales.orders?"),
        (read_with_wrong_option, "unknown option 'versoin'; did you mean 'version'?"),
        (read_wrongly_filtered, "'custmer'"),
        (write_as_a_table_of_spark, "saveAsTable, writeTo and toTable create tables in Spark's own catalog"),
        (create_a_table_of_spark, 'use load("namespace.table"), save("namespace.table")'),
        (write_unknown_column, "column 'custmer' is not in the table (did you mean 'customer'?)"),
        (write_without_key, "column 'order_id' is not null, and 1 row(s) have no value in it"),
        (write_key_twice, "occur more than once"),
    ],
)
def test_the_message_of_an_error_comes_first(
    session: SparkSession, lake: Lakehouse, work: Callable[[SparkSession, Lakehouse], None], sentence: str
) -> None:
    version = lake.version
    with pytest.raises(PySparkException) as caught:
        work(session, lake)
    said = str(caught.value)
    assert sentence in "\n".join(said.splitlines()[:2])
    assert "Traceback" not in said
    assert lake.version == version
    assert not session.catalog.tableExists("new_name")


@pytest.mark.interop
def test_save_as_table_writes_to_the_table_of_the_options(session: SparkSession, lake: Lakehouse) -> None:
    rows = session.sql("SELECT 1L AS order_id, 'ana' AS customer")
    rows.write.format("mangrove").options(lake=lake.uri, table="sales.orders").saveAsTable("noted_beside")
    try:
        assert [str(table) for table in lake.tables("sales")] == ["sales.orders"]
        assert lake.table("sales.orders").to_arrow(["order_id"]).to_pylist() == [{"order_id": 1}]
        with pytest.raises(PySparkException, match='the option "lake" is missing'):
            session.table("noted_beside").collect()
        found = session.sql(f"SELECT * FROM noted_beside WITH (lake = '{lake.uri}', table = 'sales.orders')")
        assert numbers(found) == [1]
    finally:
        session.sql("DROP TABLE noted_beside")


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ({"order_id": LongType(), "nmae": StringType()}, {}, "column 'nmae' is not in the table"),
        ({"order_id": StringType()}, {}, "column 'order_id' is bigint, but the rows have string"),
        ({"order_id": LongType()}, {"operation": "upsert"}, "lack customer, amount, ts"),
        ({"order_id": LongType()}, {"operation": "upsrt"}, "unknown operation 'upsrt'; expected one of append, upsert"),
        ({"order_id": LongType()}, {"path": "sales.ordrs"}, "did you mean sales.orders"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(
    lake: Lakehouse, columns: dict[str, DataType], options: dict[str, str], complaint: str
) -> None:
    given = CaseInsensitiveDict({"lake": lake.uri, "path": "sales.orders", **options})
    with pytest.raises((InvalidInputError, NotFoundError), match=complaint):
        MangroveSource(given).writer(StructType([StructField(*one) for one in columns.items()]), overwrite=False)


def build_source(lake: Lakehouse, name: str, **options: str) -> MangroveSource:
    return MangroveSource(CaseInsensitiveDict({"lake": lake.uri, "path": name, **options}))


def read_numbers(lake: Lakehouse, name: str) -> list[int]:
    """Return the keys of the rows that a batch read of the source returns."""
    source = build_source(lake, name)
    reader = source.reader(source.schema())
    return sorted(key for part in reader.partitions() for batch in reader.read(part) for key in batch[0].to_pylist())


def stream_numbers(lake: Lakehouse, name: str) -> list[int]:
    """Return the keys of the rows that a first batch of a streaming read returns."""
    source = build_source(lake, name)
    reader = source.streamReader(source.schema())
    parts = reader.partitions(start := reader.initialOffset(), reader.latestOffset(start))
    return sorted(key for part in parts for batch in reader.read(part) for key in batch[0].to_pylist())


def test_the_option_table_takes_the_canonical_string_and_the_locator_of_every_part_of_a_table(lake: Lakehouse) -> None:
    orders = lake.table("sales.orders")
    orders.append([order(number) for number in range(6)])
    orders.append([order(10)])
    orders.create_stream("reload").append([order(99)])
    locators: list[Locator] = [orders.locator, orders.opened().version_locator, orders.opened().stream_locator]
    locators += [*(locator for locator, _ in orders.partitions()), *(locator for locator, _ in orders.deltas())]
    names = ["sales|orders|1|reload|deltacat", *(lake.resolve(locator).canonical for locator in locators)]
    assert {len(name.split("|")) for name in names} == {2, 3, 5, 7, 8}
    for name in names:
        expected = sorted(row["order_id"] for row in lake.table(name).to_arrow().to_pylist())
        assert read_numbers(lake, name) == stream_numbers(lake, name) == expected
    by_ids = [str(orders.identity), *map(str, locators[1:])]
    expected_rows = [read_numbers(lake, name) for name in names[1:]]
    lake.rename_table("sales.orders", "sales.sold")
    lake.create_table("sales.orders", "order_id bigint")
    assert all(name.startswith("|") for name in by_ids)
    assert [read_numbers(lake, name) for name in by_ids] == expected_rows
    assert [stream_numbers(lake, name) for name in by_ids] == expected_rows
    with pytest.raises(NotFoundError, match="the table with the id none does not exist"):
        build_source(lake, "|none|none").schema()
    with pytest.raises(InvalidInputError, match="'\\|none' is not a locator"):
        build_source(lake, "|none").schema()


def test_a_change_feed_and_rows_are_read_and_written_by_ids_after_a_rename(lake: Lakehouse) -> None:
    orders = lake.create_table("sales.items", "order_id bigint not null, note string", keys=["order_id"])
    orders.append([{"order_id": 1, "note": "old"}])
    name = str(orders.identity)
    source = build_source(lake, name, readChangeFeed="true", startingVersion=str(lake.version + 1))
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    lake.rename_table("sales.items", "sales.sold")
    orders = lake.table("sales.sold")
    orders.upsert([{"order_id": 1, "note": "new"}])
    parts = reader.partitions(start, reader.latestOffset(start))
    rows = [pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(part))) for part in parts]
    assert [row["note"] for batches in rows for batch in batches for row in batch.to_pylist()] == ["old", "new"]
    schema = StructType([StructField("order_id", LongType()), StructField("note", StringType())])
    writer = build_source(lake, name).writer(schema, overwrite=False)
    written = writer.write(iter([pa.RecordBatch.from_pylist([{"order_id": 2, "note": "more"}])]))
    writer.commit([written])
    assert orders.to_arrow().sort_by("order_id")["order_id"].to_pylist() == [1, 2]
    assert lake.history(limit=1)[0].message == "append to sales.sold"


def test_the_option_table_refuses_a_canonical_string_of_no_object(lake: Lakehouse) -> None:
    lake.table("sales.orders").append([order(1)])
    (partition, _) = next(iter(lake.table("sales.orders").partitions()))
    name = lake.resolve(partition).canonical
    for wrong in ("sales|orders|1|none|deltacat", name.replace("|deltacat|", "|iceberg|"), f"{name}|9"):
        with pytest.raises(NotFoundError, match="does not exist"):
            build_source(lake, wrong).schema()
    with pytest.raises(InvalidInputError, match="names table version 1, but version is 2"):
        build_source(lake, "sales|orders|1", tableVersion="2").schema()
    with pytest.raises(InvalidInputError, match="is read-only; write to its table"):
        build_source(lake, name).writer(StructType([StructField("order_id", LongType())]), overwrite=False)


@pytest.mark.interop
def test_rows_are_written_to_a_stream_by_its_canonical_string(session: SparkSession, lake: Lakehouse) -> None:
    lake.table("sales.orders").create_stream("reload")
    name = "sales|orders|1|reload|deltacat"
    frame = session.range(3).selectExpr("id AS order_id")
    frame.write.format("mangrove").options(lake=lake.uri).mode("append").save(name)
    assert sorted(row["order_id"] for row in lake.table(name).to_arrow().to_pylist()) == [0, 1, 2]
    assert lake.table("sales.orders").to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"path": "s.t"}, 'option "lake" is missing'),
        ({"lake": "x"}, "no table of x is given"),
        ({"lake": "x", "path": "s.t", "versoin": "3"}, "did you mean 'version'"),
        ({"lake": "x", "path": "s.t", "version": "3", "timestamp": "2026"}, "give one of them"),
        ({"lake": "x", "path": "s.t", "version": "latest"}, "invalid version 'latest'"),
        ({"lake": "x", "path": "s.t", "maxRowsPerTrigger": "0"}, "at least 1"),
        ({"lake": "x", "path": "s.t", "maxRowsPerTrigger": "1", "maxFilesPerTrigger": "1"}, "exclude each other"),
        ({"lake": "x", "path": "s.t", "readChangeFeed": "yes"}, "expected true or false"),
        ({"lake": "x", "path": "t"}, "t"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        parse_options(options)


@pytest.mark.parametrize(("option", "value"), [("partitionOverwriteMode", "dynamic"), ("replaceWhere", "id = 1")])
def test_an_overwrite_with_an_option_that_would_limit_it_elsewhere_is_refused(
    tmp_path: Path, option: str, value: str
) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    lake.create_table("s.t", "id bigint")
    source = MangroveSource(CaseInsensitiveDict({"lake": lake.uri, "path": "s.t", option: value}))
    source.writer(source.schema(), overwrite=False)
    with pytest.raises(InvalidInputError, match=f"{option} is not supported, and the mode overwrite replaces"):
        source.writer(source.schema(), overwrite=True)
