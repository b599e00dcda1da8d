"""A table's rows in other tools, its own history, and what became of rows between two versions."""

import decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import mangrove
from mangrove import Expr, col, expr, lit
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.schema_text import parse_schema
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.local.schema_projection import Matching, conform_rows
from mangrove.tables.write_plan import RowCounts


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("s")
    return lake


def test_rows_are_converted_to_polars_and_duckdb(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", as_=[{"id": 1, "tags": ["a", None]}, {"id": 2, "tags": None}])
    assert table.to_polars(where="id = 1").to_dicts() == [{"id": 1, "tags": ["a", None]}]
    assert table.to_duckdb(columns=["id"]).aggregate("sum(id)").fetchall() == [(3,)]
    with duckdb.connect() as connection:
        assert table.to_duckdb(connection).filter("tags is null").fetchall() == [(2, None)]


def test_the_history_of_a_table_names_the_versions_that_changed_it(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id int", keys=["id"])
    other = lake.create_table("s.other", "id int")
    table.append([{"id": 1}])
    other.append([{"id": 1}])
    lake.rename_table("s.t", "s.renamed")
    renamed = lake.table("s.renamed")
    with lake.transaction(message="both") as transaction:
        transaction.table("s.renamed").append([{"id": 2}])
        transaction.table("s.other").append([{"id": 2}])
    renamed.update_schema().add_column("name", "string").commit()
    lines = [line.message for line in renamed.history()]
    assert lines == [
        "add column name to s.renamed",
        "both",
        "rename table s.t to s.renamed",
        "append to s.t",
        "create table s.t",
    ]
    assert [line.message for line in renamed.history(limit=1)] == lines[:1]
    with pytest.raises(InvalidInputError, match="from the lakehouse only"), lake.transaction() as transaction:
        transaction.table("s.renamed").history()


def test_changes_between_two_versions_have_rows_as_they_were_and_as_they_became(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id int not null, n int", keys=["id"])
    table.append([{"id": number, "n": 0} for number in range(3)])
    first = lake.version
    table.update({"n": expr("id + 1")}, "id < 2")
    second = lake.version
    table.delete("id = 0")
    found = table.changes(first, second).sort_by([("id", "ascending")]).to_pylist()
    assert [(row["id"], row["n"], row["_change_type"]) for row in found] == [
        (0, 0, "update_before"),
        (0, 1, "update_after"),
        (1, 0, "update_before"),
        (1, 2, "update_after"),
    ]
    lake.maintenance.compact("s.t")
    assert table.changes(second).to_pylist() == [{"id": 0, "n": 1, "_change_type": "delete"}]
    assert table.changes(first, first).num_rows == 0


def test_a_thousand_columns_and_nested_ones_are_updated_and_merged(lake: Lakehouse) -> None:
    columns = ", ".join(f"c{number} int" for number in range(1000))
    schema = f"id int not null, place struct<city: string, at: array<struct<x: decimal(4,1)>>>, {columns}"
    table = lake.create_table("s.wide", schema, keys=["id"])
    place = {"city": "a", "at": [{"x": decimal.Decimal("1.5")}, None]}
    table.append([{"id": 1, "place": place, "c0": 1, "c999": 9}, {"id": 2, "place": None}])
    assert table.update({"c999": expr("c0 + 1"), "c500": 5}, "place.city = 'a'") == RowCounts(updated=1)
    merge = table.merge([{"id": 2, "place": place}, {"id": 3, "place": {"city": None, "at": []}}], "t.id = s.id")
    assert merge.when_matched_update().when_not_matched_insert().execute() == RowCounts(1, 1, 0)
    found = table.to_arrow(["id", "place", "c500", "c999"]).sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "place": place, "c500": 5, "c999": 2},
        {"id": 2, "place": place, "c500": None, "c999": None},
        {"id": 3, "place": {"city": None, "at": []}, "c500": None, "c999": None},
    ]


def test_columns_are_matched_by_one_key_of_each_field_and_column() -> None:
    keys: list[str] = []

    def note_key(named: Any) -> str:
        keys.append(named.name)
        return str(named.name)

    schema = parse_schema(", ".join(f"c{number} int" for number in range(100)))
    rows = pa.table({f"c{number}": [number] for number in reversed(range(100))})
    conformed = conform_rows(rows, schema, Matching(note_key, note_key), is_checked=True)
    assert conformed.to_pylist() == [{f"c{number}": number for number in range(100)}]
    assert len(keys) == 200


def test_empty_frames_change_nothing(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id int not null, n int", keys=["id"])
    table.append([{"id": 1, "n": 1}])
    empty = pa.table({"id": pa.array([], pa.int32()), "n": pa.array([], pa.int32())})
    version = lake.version
    assert table.append(empty) == table.append(empty, ordered=False) == RowCounts()
    assert table.upsert(empty) == RowCounts(None, None, 0)
    assert table.merge(empty, "t.id = s.id").when_matched_delete().execute() == RowCounts()
    assert lake.version == version
    merge = table.merge(empty, "t.id = s.id").when_not_matched_by_source_update({"n": 2})
    assert merge.execute() == RowCounts(updated=1)


def test_errors_use_sql_type_names_and_name_a_remedy(lake: Lakehouse) -> None:
    table = lake.create_table("s.odd", "id bigint not null, `sel ect` int, `a.b` string, note string", keys=["id"])
    table.append([{"id": 1, "sel ect": 1, "a.b": "3", "note": "n"}])
    with pytest.raises(InvalidInputError, match="days does not support a column of type bigint"):
        lake.create_table("s.days", "id bigint", partition_by=["days(id)"])
    with pytest.raises(InvalidInputError, match="column 'sel ect' is int and is set to string"):
        table.update({"sel ect": "abc"}, engine="local")
    with pytest.raises(InvalidInputError, match=r"does not fit into int: 'abc' is no number$"):
        table.update({"sel ect": expr("cast('abc' as int)")}, engine="local")
    with pytest.raises(NotFoundError, match=r"write it between backticks, `a\.b`"):
        table.to_arrow(where="a.b = '3'")
    with pytest.raises(InvalidInputError, match=r"to_spark\(where=…\)"):
        table.to_arrow(where="upper(note) = 'N'")
    with pytest.raises(InvalidInputError, match="leave one row of the source for each of them") as refused:
        table.upsert([{"id": 1, "note": "x"}, {"id": 1, "note": "y"}])
    assert "`on`" not in str(refused.value)
    with pytest.raises(InvalidInputError, match="give the earlier one first"):
        table.changes(from_version=lake.version, to_version=1)
    with pytest.raises(InvalidInputError, match="boolean, tinyint, smallint"):
        lake.create_table("s.none", "id nosuch")


def test_invalid_arguments_are_reported_without_starting_spark(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id bigint not null, n int", keys=["id"])
    table.append([{"id": 1, "n": 1}])
    version = lake.version
    for columns in ([1], [None], "id", ["id", "ID"]):
        with pytest.raises(InvalidInputError, match="expected a list of distinct names"):
            table.to_arrow(columns)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a condition is bigint and not true or false"):
        table.delete("id", engine="local")
    for empty in ("", "  "):
        with pytest.raises(InvalidInputError, match="the expression is empty"):
            table.delete(empty)
    with pytest.raises(InvalidInputError, match=r"no column 'x' for the merge; expected one of id, n$"):
        table.merge([{"id": 1, "n": 2}], "x").when_matched_delete().execute()
    assert lake.version == version


def test_a_bare_string_is_a_value_and_an_expression_is_marked_as_one(lake: Lakehouse) -> None:
    table = lake.create_table("s.words", "id bigint not null, name string, status string", keys=["id"])
    table.append([{"id": 1, "name": "n", "status": "old"}])
    cases: list[tuple[str | Expr, str]] = [
        ("name", "name"),
        (col("name"), "n"),
        (expr("upper(name)"), "N"),
        (lit("it's"), "it's"),
    ]
    for given, expected in cases:
        assert table.update({"status": given}, where=expr("id = 1")) == RowCounts(updated=1)
        assert table.to_arrow(["status"])["status"].to_pylist() == [expected]
    merge = table.merge([{"id": 1, "name": "m"}], on="t.id = s.id")
    merge.when_matched_update({"status": "s.name", "name": expr("s.name")}).execute()
    assert table.to_arrow().to_pylist() == [{"id": 1, "name": "m", "status": "s.name"}]
    with pytest.raises(InvalidInputError, match="an expression is SQL text"):
        expr(5)  # type: ignore[arg-type]


def test_a_scan_reads_one_state_of_the_table_for_any_reader(lake: Lakehouse) -> None:
    table = lake.create_table("s.scanned", "id bigint not null, n int", keys=["id"])
    table.append([{"id": number, "n": number % 2} for number in range(10)])
    whole, some = table.scan(), table.scan(where="n = 1", columns=["id"])
    table.delete_keys([{"id": 1}])
    assert (whole.count(), some.count(), table.scan().count(), table.scan("n = 1").count()) == (10, 5, 9, 4)
    assert some.to_arrow().to_pydict() == {"id": [1, 3, 5, 7, 9]}
    assert sum(batch.num_rows for batch in some.to_batches()) == 5
    assert list(some.to_pandas()["id"]) == list(some.to_polars()["id"]) == [1, 3, 5, 7, 9]
    assert some.to_duckdb().fetchall() == [(1,), (3,), (5,), (7,), (9,)]
    assert [one.file for one in whole.plan.scans] == whole.files()
    assert whole.explain().startswith("reads 1 of 1 files")
    snapshot = lake.at(lake.version - 1).table("s.scanned")
    assert snapshot.scan().count() == 10
