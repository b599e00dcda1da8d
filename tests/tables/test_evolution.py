"""Columns change by their ids, and only in ways that keep every file readable."""

import re
from dataclasses import replace

import pytest

from mangrove.errors import MangroveError
from mangrove.model.objects import TableVersion
from mangrove.model.schemes import UNSORTED, parse_partition_scheme, parse_sort_scheme
from mangrove.model.sql_text import parse_schema, schema_text
from mangrove.tables.constraints import with_check, without_check
from mangrove.tables.evolution import (
    with_column_added,
    with_column_dropped,
    with_column_renamed,
    with_column_widened,
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
    return schema_text(version.schema)


def test_a_new_column_takes_an_id_that_no_column_ever_had() -> None:
    dropped = with_column_dropped(with_column_added(VERSION, ["note"], "string"), ["note"])
    again = with_column_added(dropped, ["note"], "struct<a: int>")
    assert dropped.schema is not None
    assert again.schema is not None
    assert dropped.schema.columns == SCHEMA.columns
    assert again.schema.column("note").id == SCHEMA.last_column_id + 2
    assert again.schema.last_column_id == again.schema.column("note", "a").id == SCHEMA.last_column_id + 3
    assert [schema.schema_id for schema in again.schemas] == [0, 1, 2, 3]


def test_columns_inside_structs_change_too() -> None:
    version = with_column_added(VERSION, ["place", "zip"], "int")
    version = with_column_renamed(version, ["place", "city"], "town")
    version = with_column_widened(version, ["place", "zip"], "bigint")
    assert "place struct<town: string, zip: bigint>" in text_of(version)
    assert "place struct<town: string>" in text_of(with_column_dropped(version, ["place", "zip"]))


@pytest.mark.parametrize(
    ("name", "type_words"), [("id", "bigint"), ("name", "varchar(6)"), ("name", "string"), ("d", "decimal(38,2)")]
)
def test_a_type_may_grow(name: str, type_words: str) -> None:
    version = with_column_widened(VERSION, [name], type_words)
    assert f"{name} {type_words}" in text_of(version)
    assert with_column_widened(version, [name], type_words) == version


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
def test_a_type_may_not_become_another(path: list[str], type_words: str) -> None:
    with pytest.raises(MangroveError, match="is not wider"):
        with_column_widened(VERSION, path, type_words)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (["id"], "is a key"),
        (["day"], "partitioned by"),
        (["place"], "sorted by"),
        (["place", "city"], "sorted by"),
        (["no"], "no column 'no'"),
        (["tags", "element"], "no struct"),
    ],
)
def test_a_column_in_use_stays(path: list[str], reason: str) -> None:
    with pytest.raises(MangroveError, match=re.escape(reason)):
        with_column_dropped(VERSION, path)


def test_what_would_break_rows_that_are_there_is_refused() -> None:
    with pytest.raises(MangroveError, match="leave that out"):
        with_column_added(VERSION, ["note"], "string not null")
    with pytest.raises(MangroveError, match="does not tell them apart"):
        with_column_added(VERSION, ["NAME"], "string")
    with pytest.raises(MangroveError, match="does not tell them apart"):
        with_column_renamed(VERSION, ["name"], "ID")
    alone = TableVersion(1, parse_schema("a int"))
    with pytest.raises(MangroveError, match="only one"):
        with_column_dropped(alone, ["a"])


@pytest.mark.parametrize("path", [["d"], ["D"], ["place"], ["place", "city"]])
def test_a_column_that_a_check_names_keeps_its_name_until_the_check_is_dropped(path: list[str]) -> None:
    checked = replace(with_check(VERSION, "small", "`D` < 50 or place.city = 'name'"), sort_scheme=UNSORTED)
    with pytest.raises(MangroveError, match="is named by the check 'small', which is"):
        with_column_renamed(checked, path, "other")
    with pytest.raises(MangroveError, match="= 'name': drop the check first"):
        with_column_dropped(checked, path)
    free = replace(without_check(checked, "small"), schema=WIDER)
    assert with_column_renamed(free, path, "other") != free != with_column_dropped(free, path)
    assert "title" in text_of(with_column_renamed(checked, ["name"], "title"))
    assert with_column_renamed(checked, ["d"], "d") == checked
