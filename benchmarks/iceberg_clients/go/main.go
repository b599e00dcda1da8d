// iceberg-go as a client: it reads a command in each line, and writes an answer in each line.
//
//	client ADDRESS TOKEN
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/io/gocloud"
	"github.com/apache/iceberg-go/table"
)

var ctx = context.Background()

func name(text string) table.Identifier { return strings.Split(text, ".") }

func row(schema *arrow.Schema, id int64) arrow.Table {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	builder.Field(0).(*array.Int64Builder).Append(id)
	builder.Field(1).(*array.StringBuilder).Append("new")
	record := builder.NewRecordBatch()
	return array.NewTableFromRecords(schema, []arrow.RecordBatch{record})
}

func readIds(found *table.Table, options ...table.ScanOption) ([]int64, error) {
	rows, err := found.Scan(options...).ToArrowTable(ctx)
	if err != nil {
		return nil, err
	}
	ids := []int64{}
	for _, chunk := range rows.Column(rows.Schema().FieldIndices("id")[0]).Data().Chunks() {
		ids = append(ids, chunk.(*array.Int64).Int64Values()...)
	}
	return ids, nil
}

func run(catalog *rest.Catalog, words []string) (any, error) {
	schema := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "name", Type: iceberg.PrimitiveTypes.String})
	rows := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	switch words[0] {
	case "create-namespace":
		return nil, catalog.CreateNamespace(ctx, name(words[1]), nil)
	case "create-table":
		_, err := catalog.CreateTable(ctx, name(words[1]), schema)
		return nil, err
	case "drop-table":
		return nil, catalog.DropTable(ctx, name(words[1]))
	case "rename-table":
		_, err := catalog.RenameTable(ctx, name(words[1]), name(words[2]))
		return nil, err
	}
	found, err := catalog.LoadTable(ctx, name(words[1]))
	if err != nil {
		return nil, err
	}
	number := int64(0)
	if len(words) > 2 {
		number, _ = strconv.ParseInt(words[2], 10, 64)
	}
	hasNumber := iceberg.EqualTo(iceberg.Reference("id"), number)
	switch words[0] {
	case "read":
		return readIds(found)
	case "read-snapshot":
		return readIds(found, table.WithSnapshotID(number))
	case "read-tag":
		scan, err := found.Scan().UseRef(words[2])
		if err != nil {
			return nil, err
		}
		return readIds(found, table.WithSnapshotID(scan.Snapshot().SnapshotID))
	case "append":
		_, err = found.AppendTable(ctx, row(rows, number), 10, nil)
	case "delete":
		_, err = found.Delete(ctx, hasNumber, nil)
	case "update":
		_, err = found.OverwriteTable(ctx, row(rows, number), 10, nil, table.WithOverwriteFilter(hasNumber))
	case "add-column":
		change := found.NewTransaction()
		err = change.UpdateSchema(true, false).AddColumn([]string{"more"}, iceberg.PrimitiveTypes.Int32, "", false, nil).
			RenameColumn([]string{"name"}, "label").Commit()
		if err == nil {
			_, err = change.Commit(ctx)
		}
	case "add-partition":
		change := found.NewTransaction()
		err = change.UpdateSpec(true).AddIdentity("name").Commit()
		if err == nil {
			_, err = change.Commit(ctx)
		}
	case "remove-orphan-files":
		_, err = found.DeleteOrphanFiles(ctx, table.WithFilesOlderThan(time.Nanosecond))
	case "expire-snapshots":
		change := found.NewTransaction()
		err = change.ExpireSnapshots(table.WithRetainLast(1), table.WithOlderThan(time.Nanosecond))
		if err == nil {
			_, err = change.Commit(ctx)
		}
	default:
		err = fmt.Errorf("unknown command %s", words[0])
	}
	return nil, err
}

func main() {
	catalog, err := rest.NewCatalog(ctx, "lake", os.Args[1], rest.WithOAuthToken(os.Args[2]))
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var text string
		_ = json.Unmarshal(lines.Bytes(), &text)
		found, err := run(catalog, strings.Fields(text))
		if err != nil {
			_ = answers.Encode(map[string]any{"error": err.Error()})
		} else {
			_ = answers.Encode(map[string]any{"found": found})
		}
	}
}
