"""Columns change by their ids, and only in ways that keep every file readable."""

import re
from dataclasses import replace

import pytest

from mangrove.errors import MangroveError
from mangrove.expressions.schema_text import format_schema, parse_schema
from mangrove.model.objects import TableVersion
from mangrove.model.partitioning import UNSORTED, parse_partition_scheme, parse_sort_scheme
from mangrove.tables.constraints import add_check_constraint, drop_check_constraint
from mangrove.tables.schema_evolution import (
    add_column,
    drop_column,
    rename_column,
    widen_column,
)

WIDER = parse_schema(
    "id int not null, day date, name varchar(5), place struct<city: string, street: string>, tags array<int>, "
    "d decimal(4,2)"
)
SCHEMA = parse_schema(
    "id int not null, day date, name varchar(5), place struct<city: string>, tags array<int>, d decimal(4,2)"
)
VERSION = TableVersion(
    1,
    SCHEMA,
    keys=(1,),
    partition_scheme=parse_partition_scheme(["day"], SCHEMA),
    sort_scheme=parse_sort_scheme(["place.city"], SCHEMA),
)


def text_of(version: TableVersion) -> str:
    assert version.schema is not None
    return format_schema(version.schema)


def test_a_new_column_takes_an_id_that_no_column_ever_had() -> None:
    dropped = drop_column(add_column(VERSION, ["note"], "string"), ["note"])
    again = add_column(dropped, ["note"], "struct<a: int>")
    assert dropped.schema is not None
    assert again.schema is not None
    assert dropped.schema.columns == SCHEMA.columns
    assert again.schema.column("note").id == SCHEMA.last_column_id + 2
    assert again.schema.last_column_id == again.schema.column("note", "a").id == SCHEMA.last_column_id + 3
    assert [schema.schema_id for schema in again.schemas] == [0, 1, 2, 3]


def test_columns_inside_structs_change_too() -> None:
    version = add_column(VERSION, ["place", "zip"], "int")
    version = rename_column(version, ["place", "city"], "town")
    version = widen_column(version, ["place", "zip"], "bigint")
    assert "place struct<town: string, zip: bigint>" in text_of(version)
    assert "place struct<town: string>" in text_of(drop_column(version, ["place", "zip"]))


@pytest.mark.parametrize(
    ("name", "type_words"), [("id", "bigint"), ("name", "varchar(6)"), ("name", "string"), ("d", "decimal(38,2)")]
)
def test_a_type_can_be_widened(name: str, type_words: str) -> None:
    version = widen_column(VERSION, [name], type_words)
    assert f"{name} {type_words}" in text_of(version)
    assert widen_column(version, [name], type_words) == version


@pytest.mark.parametrize(
    ("path", "type_words"),
    [
        (["id"], "smallint"),
        (["id"], "double"),
        (["id"], "string"),
        (["name"], "varchar(4)"),
        (["name"], "binary"),
        (["d"], "decimal(5,3)"),
        (["d"], "decimal(3,2)"),
        (["day"], "timestamp"),
        (["place"], "struct<city: string, zip: int>"),
        (["tags"], "array<bigint>"),
    ],
)
def test_other_type_changes_are_rejected(path: list[str], type_words: str) -> None:
    with pytest.raises(MangroveError, match="is not wider"):
        widen_column(VERSION, path, type_words)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (["id"], "is a key"),
        (["day"], "a partition column"),
        (["place"], "a sort column"),
        (["place", "city"], "a sort column"),
        (["no"], "no column 'no'"),
        (["tags", "element"], "not a struct"),
    ],
)
def test_a_column_in_use_stays(path: list[str], reason: str) -> None:
    with pytest.raises(MangroveError, match=re.escape(reason)):
        drop_column(VERSION, path)


def test_changes_that_invalidate_existing_rows_are_rejected() -> None:
    with pytest.raises(MangroveError, match="make it nullable"):
        add_column(VERSION, ["note"], "string not null")
    with pytest.raises(MangroveError, match="treats them as equal"):
        add_column(VERSION, ["NAME"], "string")
    with pytest.raises(MangroveError, match="treats them as equal"):
        rename_column(VERSION, ["name"], "ID")
    alone = TableVersion(1, parse_schema("a int"))
    with pytest.raises(MangroveError, match="only one"):
        drop_column(alone, ["a"])


@pytest.mark.parametrize("path", [["d"], ["D"], ["place"], ["place", "city"]])
def test_a_column_that_a_check_names_keeps_its_name_until_the_check_is_dropped(path: list[str]) -> None:
    checked = replace(add_check_constraint(VERSION, "small", "`D` < 50 or place.city = 'name'"), sort_scheme=UNSORTED)
    with pytest.raises(MangroveError, match="is used by check 'small'"):
        rename_column(checked, path, "other")
    with pytest.raises(MangroveError, match=r"= 'name'\); drop the check first"):
        drop_column(checked, path)
    free = replace(drop_check_constraint(checked, "small"), schema=WIDER)
    assert rename_column(free, path, "other") != free != drop_column(free, path)
    assert "title" in text_of(rename_column(checked, ["name"], "title"))
    assert rename_column(checked, ["d"], "d") == checked
