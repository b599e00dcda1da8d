"""What is asked of rows before they are written, on either engine, and tables that are made from rows."""

import datetime
from pathlib import Path
from typing import Any

import pytest

import mangrove
from mangrove import expr
from mangrove.errors import AlreadyExistsError, InvalidInputError
from mangrove.expressions.schema_text import format_schema
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.tables.write_plan import RowCounts

ENGINES = ["local", pytest.param("spark", marks=pytest.mark.interop)]


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("s")
    return lake


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=str)


@pytest.mark.parametrize("engine", ENGINES)
def test_defaults_and_checks_apply_to_every_write(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table(
        "s.t",
        "id bigint not null, amount int, note string default 'none'",
        keys=["id"],
        defaults={"amount": "1 + 1"},
        checks={"positive": "amount * 2 > 0"},
    )
    table.append([{"id": 1}], engine=engine)
    table.append([{"id": 2, "amount": None, "note": None}], engine="local")
    wanted = [{"id": 1, "amount": 2, "note": "none"}, {"id": 2, "amount": None, "note": None}]
    assert rows_of(table) == wanted
    version = lake.version
    with pytest.raises(InvalidInputError, match=r"'positive'.*\b3\b"):
        table.append([{"id": 3, "amount": -1}], engine=engine)
    with pytest.raises(InvalidInputError, match="'positive'"):
        table.update({"amount": -1}, "id = 1", engine=engine)
    with pytest.raises(InvalidInputError, match="'positive'"):
        table.upsert([{"id": 9, "amount": -9, "note": ""}], engine=engine)
    merge = table.merge([{"id": 4}], "t.id = s.id", engine=engine)
    with pytest.raises(InvalidInputError, match="'positive'"):
        merge.when_not_matched_insert({"id": expr("s.id"), "amount": 0}).execute()
    assert lake.version == version
    assert merge.when_not_matched_insert().execute() == RowCounts(inserted=1)
    assert rows_of(table)[-1] == {"id": 4, "amount": 2, "note": "none"}


def test_a_check_is_added_only_if_existing_rows_satisfy_it(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id bigint, amount int")
    table.append([{"id": 1, "amount": -1}, {"id": 2, "amount": None}])
    with pytest.raises(InvalidInputError, match=r"'positive'.*'id': 1"):
        table.update_schema().add_check("positive", "amount > 0").commit()
    table.update({"amount": 1}, "id = 1")
    table.update_schema().add_check("positive", "amount > 0").commit()
    assert table.checks == {"positive": "amount > 0"}
    with pytest.raises(AlreadyExistsError):
        table.update_schema().add_check("positive", "amount > 1").commit()
    late = lake.transaction()
    late.table("s.t").append([{"id": 3, "amount": 3}])
    table.update_schema().drop_check("positive").commit()
    table.append([{"id": 4, "amount": -4}])
    late.commit()
    with pytest.raises(InvalidInputError, match=r"no value in 'amount'.*'id': 2"):
        table.update_schema().set_not_null("amount").commit()
    table.delete("amount is null")
    table.update_schema().set_not_null("amount").commit()
    with pytest.raises(InvalidInputError, match="not null"):
        table.append([{"id": 5}])
    table.update_schema().drop_not_null("amount").commit()
    table.update_schema().set_default("id", "7").commit()
    table.update_schema().set_comment("amount", "in cents").commit()
    table.update_schema().move_column("amount").commit()
    table.update_schema().move_column("amount", after="id").commit()
    table.update_schema().move_column("amount").commit()
    assert format_schema(table.state().schema) == "amount int comment 'in cents', id bigint default 7"
    table.append([{"amount": 5}])
    assert {"amount": 5, "id": 7} in rows_of(table)


def test_a_table_is_created_from_rows_and_replaced_in_one_version(lake: Lakehouse) -> None:
    day = datetime.date(2026, 1, 1)
    table = lake.create_table("s.t", as_=[{"id": 1, "day": day}], keys=["id"], partition_by=["day"])
    made = lake.version
    assert rows_of(table) == [{"id": 1, "day": day}]
    with pytest.raises(AlreadyExistsError):
        lake.create_table("s.t", as_=[{"id": 1}])
    again = lake.create_table("s.t", as_=[{"name": "x", "tags": ["a"]}], replace=True)
    assert lake.version == made + 1
    assert rows_of(again) == [{"name": "x", "tags": ["a"]}]
    assert rows_of(lake.at(made).table("s.t")) == [{"id": 1, "day": day}]
    with pytest.raises(InvalidInputError, match="has only nulls"):
        lake.create_table("s.u", as_=[{"a": None}])
    for keys in (["w"], ["tags"]):
        with pytest.raises(InvalidInputError, match="inexact type"):
            lake.create_table("s.u", "w double, tags array<string>", keys=keys)
    assert lake.maintenance.check().problems == ()


def test_rows_add_new_columns_and_wider_types_if_requested(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id int, name string")
    table.append([{"id": 1, "name": "a"}])
    with pytest.raises(InvalidInputError, match="'more' is not in the table"):
        table.append([{"id": 2**40, "more": 1}])
    assert table.append([{"id": 2**40, "more": 1}], evolve=True) == RowCounts(inserted=1)
    assert rows_of(table) == [{"id": 1, "name": "a", "more": None}, {"id": 2**40, "name": None, "more": 1}]
    version = table.state().schema.schema_id
    table.append([{"id": 3}], evolve=True)
    assert table.state().schema.schema_id == version


@pytest.mark.interop
def test_a_table_is_created_from_a_spark_frame(spark: Any, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    frame = spark.sql(
        "select id, cast(id as decimal(10,2)) amount, timestamp_ntz '2026-01-01 00:00:00' at from range(3)"
    )
    table = lake.create_table("s.t", as_=frame)
    assert format_schema(table.state().schema) == "id bigint, amount decimal(10,2), at timestamp_ntz"
    assert table.to_spark().count() == 3
