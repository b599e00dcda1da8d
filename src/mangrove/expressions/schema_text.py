"""Parsing and formatting of schemas as Spark SQL text.

    order_id bigint not null, customer string comment 'who', tags array<string>,
    place struct<city: string not null, at: map<string, int>>, ts timestamp default current_timestamp()

Text that is printed here parses back to the same schema. Where Spark has no word
we have our own: `time`, `timetz`, `timestamp_ns`, `timestamptz_ns`, `fixed(n)`, and `not null` inside `array<…>`
and after the value of `map<…>`.
"""

import re
from functools import lru_cache
from typing import Any, Final

from sqlglot import exp

from mangrove.errors import InvalidInputError
from mangrove.expressions.sql_tree import SqlText, parse_sql_tree
from mangrove.model.schema import Schema, assign_fresh_ids
from mangrove.model.schema_text import find_plain_type, format_column
from mangrove.model.types import ELEMENT_NAME, KEY_NAME, VALUE_NAME, Column, DataType, List, Map, Struct

__all__ = ["convert_type", "format_schema", "parse_column", "parse_schema", "parse_type"]

_NAMES: Final = {
    exp.DType.DATETIME64: "timestamptz_ns",
    exp.DType.FIXEDSTRING: "fixed",
    exp.DType.TEXT: "string",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
    exp.DType.TIMESTAMPTZ: "timestamp",
}
_SIZED: Final = ("char", "fixed", "varchar")
_SIZE_DIGITS_MAX: Final = 10
_PLAIN: Final = re.compile(r"\w+\s*(\([^()]*\))?")
_NESTED: Final = re.compile(r"\w+\s*<.*>", re.DOTALL)


def convert_type(node: Any, sql: SqlText) -> DataType:
    """Return the type of a tree; nested columns are numbered from 1."""
    if node.meta.get("constraints"):
        raise sql.error(node, "a type without `not null` or a comment")
    return assign_fresh_ids([Column(0, "type", _convert(node, sql))], -1)[0].type


def _convert_column(node: Any, sql: SqlText) -> Column:
    """Return the column that a tree defines, without an id."""
    return _build_column(node.name, node.args["kind"], node.args["constraints"], sql)


def _build_column(name: str, kind: Any, constraints: list[Any], sql: SqlText, *, is_key: bool = False) -> Column:
    nullable, comment, default = not is_key, None, None
    for constraint in constraints:
        match constraint:
            case exp.NotNullColumnConstraint():
                nullable = bool(constraint.args.get("allow_null")) and not is_key
            case exp.CommentColumnConstraint():
                comment = constraint.this
            case _:
                default = constraint.this
    return Column(0, name, _convert(kind, sql), nullable, comment, default)


def _build_inner_column(name: str, node: Any, sql: SqlText, *, is_key: bool = False) -> Column:
    return _build_column(name, node, node.meta.get("constraints", []), sql, is_key=is_key)


def _convert(node: Any, sql: SqlText) -> DataType:
    is_nested = node.this in (exp.DType.ARRAY, exp.DType.LIST, exp.DType.MAP, exp.DType.STRUCT)
    written = sql.text[node.meta["start"] : node.meta["end"] + 1] if "start" in node.meta else None
    # sqlglot also knows `int array`, `int[]` and `timestamp without time zone`.
    if written is not None and not (_NESTED if is_nested else _PLAIN).fullmatch(written):
        raise sql.error(node, "one type" if not is_nested else "types between `<` and `>`")
    if not is_nested:
        return _convert_plain(node, sql)
    if node.this is exp.DType.STRUCT:
        return Struct(tuple(_convert_column(column, sql) for column in node.expressions))
    count = 2 if node.this is exp.DType.MAP else 1
    if len(node.expressions) != count:
        raise sql.error(node, "a type for the keys and, after `,`, one for the values" if count == 2 else "one type")
    if count == 1:
        return List(_build_inner_column(ELEMENT_NAME, node.expressions[0], sql))
    key, value = node.expressions
    return Map(_build_inner_column(KEY_NAME, key, sql, is_key=True), _build_inner_column(VALUE_NAME, value, sql))


def _convert_plain(node: Any, sql: SqlText) -> DataType:
    sizes = []
    for size in node.expressions:
        number = size.this
        is_whole = isinstance(number, exp.Literal) and number.this.isdecimal() and not size.args.get("expression")
        if not is_whole or len(number.this) > _SIZE_DIGITS_MAX:
            raise sql.error(size, "a whole number")
        sizes.append(int(number.this))
    name = _NAMES.get(node.this, node.this.name.lower())
    found = find_plain_type(name, sizes)
    if found is None:
        size = "one or two sizes" if name == "decimal" else "one length" if name in _SIZED else "nothing"
        raise sql.error(node, f"{size} in brackets after {name}")
    return found


_WHAT = "schema text"


@lru_cache(maxsize=64)
def parse_schema(text: str, schema_id: int = 0) -> Schema:
    """Return the schema that `text` describes, its columns numbered from 1.

    The last ones are cached: parsing takes as long as a commit, and many tables have the same columns.
    """
    sql = SqlText(text, _WHAT, ending="a comma or the end")
    columns = [_convert_column(column, sql) for column in parse_sql_tree(sql, exp.Schema).expressions]
    return Schema(assign_fresh_ids(columns), schema_id)


def parse_column(text: str, after: int = 0) -> Column:
    """Return the one column that `text` describes, numbered from `after` + 1 on."""
    sql = SqlText(text, _WHAT, ending="the end")
    return assign_fresh_ids([_convert_column(parse_sql_tree(sql, exp.ColumnDef), sql)], after)[0]


def parse_type(text: str) -> DataType:
    """Return the type that `text` describes; the columns inside it are numbered from 1."""
    sql = SqlText(text, _WHAT, ending="the end")
    return convert_type(parse_sql_tree(sql, exp.DataType), sql)


def format_schema(schema: Schema) -> str:
    """Return text that `parse_schema` reads back; ids and properties are not part of it."""
    return ", ".join(_format_column(column) for column in schema.columns)


def _format_column(column: Column) -> str:
    text = format_column(column)
    if column.default is None:
        return text
    with_default = f"{text} default {column.default}"
    try:
        is_one = parse_column(with_default).default == column.default
    except InvalidInputError:
        is_one = False
    if not is_one:
        raise InvalidInputError(
            f"the default {column.default!r} of column {column.name!r} is not a single SQL expression"
        )
    return with_default
