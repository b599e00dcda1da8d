"""The same history on Spark, in this process and on a plain list; and expressions that mean the same."""

import datetime
import decimal
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import expr
from mangrove.expressions.parse import parse_expression, parse_predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.lakehouse.table import Table
from mangrove.local.evaluation import evaluate_expression
from mangrove.local.row_changes import column_lookup_of
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.tables.write_plan import RowCounts
from mangrove.testing.table_model import TableModel

pytestmark = pytest.mark.interop

SCHEMA = (
    "id bigint not null, name string, amount decimal(10,2), at timestamp, local timestamp_ntz, "
    "place struct<city: string, tags: array<string>>"
)
Row = dict[str, Any]
Step = Callable[[Table, str], RowCounts]


def row_of(chance: random.Random) -> Row:
    number = chance.randrange(6)
    moment = datetime.datetime(2026, 1, 1 + number)
    return {
        "id": number,
        "name": chance.choice([None, "a", "ab", "b"]),
        "amount": chance.choice([None, decimal.Decimal(number), decimal.Decimal("-1.25")]),
        "at": chance.choice([None, moment.replace(tzinfo=datetime.UTC)]),
        "local": chance.choice([None, moment]),
        "place": chance.choice([None, {"city": None, "tags": ["x", None]}, {"city": "c", "tags": None}]),
    }


def rows_of(chance: random.Random) -> list[Row]:
    return list({row["id"]: row for row in (row_of(chance) for _ in range(3))}.values())


def step_of(chance: random.Random, word: str, model: TableModel) -> tuple[Step, RowCounts]:
    """Return what to do with a table, having done it to the model, and what it must answer."""
    rows, where = rows_of(chance), chance.choice(["id < 3", "name like 'a%'", "amount is null or id = 5"])
    predicate = parse_predicate(where, model.schema)
    before = len(model.rows)
    match word:
        case "append":
            model.append(rows)
            return lambda table, engine: table.append(rows, engine=engine), RowCounts(inserted=len(rows))
        case "upsert":
            model.upsert(rows)
            return lambda table, engine: table.upsert(rows, engine=engine), RowCounts(None, None, 0, upserted=len(rows))
        case "upsert some":
            some = [{"id": row["id"], "name": row["name"]} for row in rows]
            counts = RowCounts(*model.upsert_some(some), 0)
            return lambda table, engine: table.upsert(some, engine=engine), counts
        case "delete":
            model.delete(predicate)
            counts = RowCounts(deleted=before - len(model.rows))
            return lambda table, engine: table.delete(where, engine=engine), counts
        case "update":
            count = model.update(lambda row: {"amount": row["amount"] and row["amount"] * 2}, predicate)
            return lambda table, engine: table.update({"amount": expr("amount * 2")}, where, engine=engine), RowCounts(
                0, count
            )
        case _:
            counts = RowCounts(
                *model.merge(
                    rows,
                    lambda row, one: bool(row["id"] == one["id"]),
                    lambda _, one: None if one["name"] is None else {"name": one["name"], "place": one["place"]},
                )
            )
            return (
                lambda table, engine: (
                    table.merge(rows, "t.id = s.id", engine=engine)
                    .when_matched_delete("s.name is null")
                    .when_matched_update({"name": expr("s.name"), "place": expr("s.place")})
                    .when_not_matched_insert()
                    .execute()
                ),
                counts,
            )


def counted(rows: list[Row]) -> Counter[str]:
    """Count rows in the one form that Arrow gives them."""
    return Counter(map(str, pa.Table.from_pylist(rows, schema=schema_to_arrow(parse_schema(SCHEMA))).to_pylist()))


@pytest.mark.parametrize(("layout", "seed", "mode"), [("tree", 3, "auto"), ("deltacat", 4, "position")])
def test_a_random_history_gives_the_same_rows_everywhere(
    spark: SparkSession, tmp_path: Path, layout: str, seed: int, mode: str
) -> None:
    chance = random.Random(seed)
    lake = mangrove.create(tmp_path / "lake", layout=layout)
    lake.create_namespace("s")
    properties = {"write.delete-mode": mode}
    tables = {
        engine: lake.create_table(f"s.{engine}", SCHEMA, keys=["id"], properties=properties)
        for engine in ("local", "spark")
    }
    model = TableModel(parse_schema(SCHEMA), ["id"])
    past: list[tuple[int, Counter[str]]] = []
    for word in ["upsert", *chance.sample(["upsert some", "delete", "update", "merge"], 3)]:
        step, counts = step_of(chance, word, model)
        for engine, table in tables.items():
            assert step(table, engine) == counts, (word, engine)
            assert counted(table.to_arrow().to_pylist()) == counted(model.read()), (word, engine)
        past.append((lake.version, counted(model.read())))
    tables["spark"].compact()
    tables["spark"].update_schema().add_column("more", "int").commit()
    for version, rows in past:
        assert counted(lake.at(version).table("s.spark").to_arrow().to_pylist()) == rows
    arrow = tables["local"].to_arrow().schema
    assert counted(tables["spark"].to_spark(arrow.names).toArrow().cast(arrow).to_pylist()) == counted(model.read())
    assert lake.maintenance.check().problems == ()
    assert spark.version


EXPRESSIONS = [
    "a + b", "a - b * 2", "a / b", "-a % 4", "d * 1.1", "d + 1", "d - b", "d / 3", "d / 1.5", "d % 0.4", "a * d",
    "w * a",
    "round(d, 1)", "round(d)", "abs(a - 100)", "cast(d as int)", "cast(d as decimal(5,1))", "cast(a as string) || s",
    "upper(s) || lower(s)", "length(s)", "coalesce(n, a)", "nullif(a, 7)", "if(a > 3, d, null)", "a in (7, null)",
    "s like '_b%'", "case when a > 3 then 1 else 2.5 end", "greatest(a, b)", "n <=> null", "a = '7'", "d * w",
    "day = '2026-01-02'",
    "day < ts", "d > 1.249", "not (a between 1 and 6)", "cast('2026-01-02' as date)", "cast(ts as date)",
    "10000000000 + a",
]  # fmt: skip


def test_expressions_mean_the_same_in_this_process_and_on_spark(spark: SparkSession) -> None:
    schema = parse_schema("a int, b bigint, d decimal(10,2), w double, s string, n int, day date, ts timestamp")
    moment = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)
    row: Row = {"a": 7, "b": 2, "d": decimal.Decimal("1.25"), "w": 0.5, "s": "Abc", "n": None}
    row |= {"day": datetime.date(2026, 1, 2), "ts": moment}
    rows = pa.Table.from_pylist([row, dict.fromkeys(row)], schema=schema_to_arrow(schema))
    frame = spark.createDataFrame(rows.replace_schema_metadata(None))
    found = frame.selectExpr(*(f"{text} as c{place}" for place, text in enumerate(EXPRESSIONS))).toArrow()
    for place, text in enumerate(EXPRESSIONS):
        here = evaluate_expression(parse_expression(text), rows, column_lookup_of(schema))
        assert here.to_pylist() == found.column(place).to_pylist(), text
        assert str(here.type) == str(found.schema.field(place).type), text
