"""Parsing and formatting of schemas as Spark SQL text.

    order_id bigint not null, customer string comment 'who', tags array<string>,
    place struct<city: string not null, at: map<string, int>>, ts timestamp default current_timestamp()

Text that is printed here parses back to the same schema. Where Spark has no word
we have our own: `time`, `timetz`, `fixed(n)`, and `not null` inside `array<…>`
and after the value of `map<…>`.
"""

from sqlglot import exp

from mangrove.errors import InvalidInputError
from mangrove.expressions.sql_tree import SqlText, parse_sql_tree
from mangrove.expressions.tree_to_schema import convert_column, convert_type
from mangrove.model.schema import Schema, assign_fresh_ids
from mangrove.model.schema_text import format_column
from mangrove.model.types import Column, DataType

__all__ = ["format_schema", "parse_column", "parse_schema", "parse_type"]

_WHAT = "schema text"


def parse_schema(text: str, schema_id: int = 0) -> Schema:
    """Return the schema that `text` describes, its columns numbered from 1."""
    sql = SqlText(text, _WHAT, ending="a comma or the end")
    columns = [convert_column(column, sql) for column in parse_sql_tree(sql, exp.Schema).expressions]
    return Schema(assign_fresh_ids(columns), schema_id)


def parse_column(text: str, after: int = 0) -> Column:
    """Return the one column that `text` describes, numbered from `after` + 1 on."""
    sql = SqlText(text, _WHAT, ending="the end")
    return assign_fresh_ids([convert_column(parse_sql_tree(sql, exp.ColumnDef), sql)], after)[0]


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
        raise InvalidInputError(f"the default {column.default!r} of column {column.name!r} is not one SQL expression")
    return with_default
