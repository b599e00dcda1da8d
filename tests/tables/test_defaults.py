"""A default is refused when it is set, and not when the first rows need it."""

from dataclasses import replace

import pytest

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.objects import CHECK_PREFIX, TableVersion
from mangrove.model.types import Column, Varchar
from mangrove.tables.constraints import (
    add_check_constraint,
    check_constraints_of,
    check_default,
    check_defaults,
    drop_check_constraint,
)

VERSION = TableVersion(1, parse_schema("id bigint, a string, reflect int"))


@pytest.mark.parametrize(
    ("type_words", "default", "said"),
    [
        ("int", "'x'", r"the default 'x' of column 'a' is text, but the column is int; use cast"),
        ("int", "3000000000", r"is out of range for int"),
        ("smallint", "-32769", r"is out of range for smallint"),
        ("decimal(5, 2)", "1234.5", r"is out of range for decimal\(5,2\)"),
        ("decimal(5, 2)", "999.995", r"is out of range for decimal\(5,2\)"),
        ("decimal(5, 2)", "1e300", r"is out of range for decimal\(5,2\)"),
        (
            "float",
            "1e300",
            r"the default 1e300 of column 'a' is out of range for float; give a smaller value, or widen",
        ),
        ("float", "-3.5e38", r"is out of range for float"),
        ("double", "1e400", r"is out of range for double"),
        ("int", "1e300", r"is out of range for int"),
        ("bigint", "9.3e18", r"is out of range for bigint"),
        ("boolean", "1", r"is a number, but the column is boolean"),
        ("date", "'2020-01-01'", r"is text, but the column is date"),
        ("int", "cast('1' as string)", r"is text, but the column is int"),
        ("struct<b: int>", "5", r"is a number, but the column is struct"),
        ("string", "x'00'", r"is bytes, but the column is string"),
        ("string", "upper(s)", r"references column 's'; a default cannot use columns"),
        ("int", "id + 1", r"references column 'id'"),
        ("int", "(select 1)", r"the default .* of column 'a' has a query, which depends on several rows; give a"),
        ("bigint", "count(1)", r"has count, which depends on several rows"),
        ("bigint", "row_number() over (order by 1)", r"has row_number, which"),
        ("string", "white", r"references column 'white'.*in quotes"),
    ],
)
def test_an_invalid_default_is_rejected(type_words: str, default: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        check_defaults(parse_schema(f"a {type_words} default {default}"))


@pytest.mark.parametrize(
    ("type_words", "default"),
    [
        ("int", "-5"),
        ("int", "1 + 2"),
        ("int", "null"),
        ("bigint", "3000000000"),
        ("double", "1"),
        ("double", "1e300"),
        ("float", "3.4028235e38"),
        ("int", "1e3"),
        ("decimal(5, 2)", "999.994"),
        ("decimal(5, 2)", "999.99"),
        ("decimal(38, 9)", "99999999999999999999999999995"),
        ("string", "5"),
        ("date", "date '2020-01-01'"),
        ("date", "current_date"),
        ("timestamp", "current_timestamp()"),
        ("int", "cast('5' as int)"),
        ("array<int>", "array(1)"),
    ],
)
def test_a_valid_default_or_one_known_only_to_spark_is_accepted(type_words: str, default: str) -> None:
    check_defaults(parse_schema(f"a {type_words} default {default}"))


def test_every_api_rejects_an_invalid_default_and_changes_nothing() -> None:
    lake = mangrove.create("memory://defaults-that-do-not-fit")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, a int")
    before = lake.version
    with pytest.raises(InvalidInputError, match="is text"):
        table.update_schema().set_default("a", "'x'").commit()
    with pytest.raises(InvalidInputError, match="is text"):
        table.update_schema().add_column("b", "int default 'x'").commit()
    with pytest.raises(InvalidInputError, match="is text"):
        lake.create_table("s.u", "id bigint, a int default 'x'")
    with pytest.raises(InvalidInputError, match="is text"):
        lake.create_table("s.u", "id bigint, a int", defaults={"a": "'x'"})
    assert lake.version == before


def test_a_default_known_only_to_spark_is_never_replaced_by_null() -> None:
    lake = mangrove.create("memory://defaults-of-spark")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, at date default current_date")
    with pytest.raises(InvalidInputError, match="current_date in a default is known to Spark at most"):
        table.append([{"id": 1}])


@pytest.mark.parametrize("call", ["java_method('A', 'b')", "`reflect`('a', 'b')", "TRY_REFLECT('a','b')"])
def test_checks_and_defaults_that_call_java_are_rejected(call: str) -> None:
    version = VERSION
    with pytest.raises(InvalidInputError, match="runs Java code"):
        add_check_constraint(version, "c", f"{call} is null")
    forged = replace(version, properties={CHECK_PREFIX + "c": f"id > 0 or {call} is null"})
    with pytest.raises(InvalidInputError, match="runs Java code"):
        check_constraints_of(forged)
    assert check_constraints_of(drop_check_constraint(forged, "c")) == {}
    with pytest.raises(InvalidInputError, match="runs Java code"):
        check_default(Column(1, "a", Varchar(), default=call))


def test_a_column_may_be_called_like_a_function_that_calls_java() -> None:
    assert check_constraints_of(add_check_constraint(VERSION, "c", "reflect > 0 and a <> 'reflect('"))
