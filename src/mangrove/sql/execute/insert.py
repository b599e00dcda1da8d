"""Execution of INSERT and TRUNCATE."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.predicates import AllOf, ColumnComparison, IsNull, Operator, Predicate
from mangrove.lakehouse.sql_port import Frame, SqlEngine
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.transaction import Transaction
from mangrove.local.python_rows import to_plain_value
from mangrove.model.objects import TableType
from mangrove.model.partitioning import Bucket, Identity, Truncate, parse_partition_scheme
from mangrove.model.schema import Schema
from mangrove.model.types import Char, Column, Float32, Float64, is_nested
from mangrove.model.values import restore_zone
from mangrove.sql.execute.expressions import StatementExpressions, has_subquery, require_schema
from mangrove.sql.execute.query import BoundQuery
from mangrove.sql.parse.statements import Insert, Query, TruncateStatement
from mangrove.sql.parse.tokens import SqlFragment, SqlName, locate_errors_at, tokenize
from mangrove.sql.resolver import NameResolver, suggest_table_name
from mangrove.tables.write_plan import NO_ROWS, RowCounts
from mangrove.transaction.aliases import locate_view

__all__ = [
    "PreparedInsert",
    "execute_insert",
    "execute_truncate",
    "load_managed_table",
    "prepare_insert",
]

_PROPERTY_PREFIX: Final = "property."
"""The options of an insert with this prefix are properties of the new delta."""


@dataclass(frozen=True, slots=True)
class PreparedInsert:
    """An insert whose rows are bound to the current tables, before anything is written."""

    statement: Insert
    table: Table
    rows: Frame
    fixed: dict[str, str]
    """The values of partition columns in the statement, as SQL."""


def prepare_insert(
    statement: Insert,
    transaction: Transaction,
    resolver: NameResolver,
    bound: Callable[[Query], BoundQuery],
    expressions: StatementExpressions,
) -> PreparedInsert:
    """Return the rows of the query in the form of the table."""
    table = load_managed_table(transaction, resolver, statement.table)
    schema = require_schema(table)
    _check_columns(statement, schema, expressions.source.text)
    named = [name.casefold() for name, _ in statement.partition]
    if len({*named}) < len(named):
        raise InvalidInputError("PARTITION names a column twice")
    fixed = {name: expressions.text(value) for name, value in statement.partition if value is not None}
    rows = bound(_substitute_defaults(statement.query, schema, _list_target_columns(statement, schema, fixed))).frame
    fitted = _fit_rows(statement, table, schema, rows, fixed, expressions.binder.engine)
    return PreparedInsert(statement, table, fitted, fixed)


def _check_columns(statement: Insert, schema: Schema, text: str) -> None:
    """Raise an error at its position for a column that does not exist or is named twice."""
    seen: set[str] = set()
    for name, place in zip(statement.columns, statement.column_places, strict=True):
        with locate_errors_at(text, place):
            schema.column(name)
            if name.casefold() in seen:
                raise InvalidInputError(f"column {name!r} is given twice")
        seen.add(name.casefold())


def execute_insert(work: PreparedInsert, expressions: StatementExpressions) -> RowCounts:
    """Append the rows to the table, or overwrite others."""
    statement, table = work.statement, work.table
    described = _parse_delta_options(statement)
    if statement.replace_where is not None:
        condition = expressions.text(statement.replace_where)
        # Spark has no subqueries in CASE.
        is_bound = not (has_subquery(condition) and expressions.is_on_spark)
        return table.overwrite(
            work.rows, where=expressions.bind_condition(condition, table, statement.table) if is_bound else condition
        )
    if not statement.overwrite:
        return table.append(work.rows, **described)
    return _overwrite_rows(statement, table, require_schema(table), work.rows, work.fixed, expressions.binder.engine)


def _parse_delta_options(statement: Insert) -> dict[str, Any]:
    """Return the options of an insert as arguments of `Table.append`."""
    if statement.options and (statement.overwrite or statement.replace_where is not None):
        raise InvalidInputError("the options of an insert describe appended rows; remove them, or OVERWRITE or REPLACE")
    described: dict[str, Any] = {}
    for name, text in statement.options.items():
        if name.startswith(_PROPERTY_PREFIX):
            described.setdefault("properties", {})[name.removeprefix(_PROPERTY_PREFIX)] = text
        elif name.lower() == "author":
            described["author"] = text
        elif name.lower() == "position" and text.isdecimal():
            described["position"] = int(text)
        else:
            raise InvalidInputError(
                f"invalid option {name} = {text!r} of an insert; expected author = '…', position = 40 or "
                f"'{_PROPERTY_PREFIX}…' = '…'"
            )
    return described


def execute_truncate(statement: TruncateStatement, transaction: Transaction, resolver: NameResolver) -> RowCounts:
    """Delete all rows."""
    return load_managed_table(transaction, resolver, statement.table).overwrite([])


def load_managed_table(transaction: Transaction, resolver: NameResolver, name: SqlName) -> Table:
    """Return the table to write to; raise an error if its data is not managed by the lakehouse."""
    target = resolver.target(name)
    locator = target.locator
    if locate_view(transaction._reading(), resolver.view_at(locator))[1] is not None:
        raise InvalidInputError(f"{locator} is a view and cannot be written to; write to its tables")
    try:
        table = transaction.table(locator)
    except NotFoundError:
        hint = suggest_table_name(transaction, resolver.namespace, (locator.namespace, locator.name))
        raise NotFoundError(f"table {locator} does not exist{hint}") from None
    if table.table_type is not TableType.MANAGED:
        raise InvalidInputError(
            f"table {locator} is {table.table_type.value} and cannot be written to; only managed tables can"
        )
    return table._bind(target)


def _substitute_defaults(query: Query, schema: Schema, targets: Sequence[str]) -> Query:
    """Return the query with DEFAULT in a list of values replaced by the column defaults."""
    tokens = tokenize(query.piece.text)
    if tokens[0].word != "VALUES" or not any(token.word == "DEFAULT" for token in tokens):
        return query
    text, copied, depth, place = "", 0, 0, 0
    used: list[str] = []
    for number, token in enumerate(tokens):
        if token.text == "(":
            place = 0 if depth == 0 else place
            depth += 1
        elif token.text == ")":
            depth -= 1
        elif token.text == "," and depth == 1:
            place += 1
        elif token.word == "DEFAULT" and tokens[number - 1].text in ("(", ",") and place < len(targets):
            if tokens[number + 1].text not in (",", ")"):
                raise InvalidInputError("DEFAULT cannot be part of an expression; use it as the whole value")
            value = schema.column(targets[place]).default or "NULL"
            used.append(value)
            text += f"{query.piece.text[copied : token.start]}({value})"
            copied = token.end
    text += query.piece.text[copied:]
    # Spark evaluates VALUES during planning and rejects functions that differ by row, such as uuid().
    return Query(
        SqlFragment(_split_values(text) if any("(" in value for value in used) else text, query.piece.start), query.at
    )


def _split_values(values: str) -> str:
    """Return a list of values as one SELECT per row.

    >>> _split_values("values (1, uuid()), (2, 'x')")
    "SELECT 1, uuid() UNION ALL SELECT 2, 'x'"
    """
    tokens, depth, start = tokenize(values)[1:-1], 0, 0
    rows: list[str] = []
    for place, token in enumerate(tokens):
        start = token.end if token.text == "(" and depth == 0 else start
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.text == ")":
            rows.append(values[start : token.start])
        elif depth == 0 and (token.text != "," or place == 0):
            return values
    return " UNION ALL ".join(f"SELECT {row}" for row in rows)


def _list_target_columns(statement: Insert, schema: Schema, fixed: dict[str, str]) -> list[str]:
    """Return the columns that the query fills, in its order."""
    if statement.columns:
        return list(statement.columns)
    fixed_names = {name.casefold() for name in fixed}
    return [column.name for column in schema.columns if column.name.casefold() not in fixed_names]


def _fit_rows(
    statement: Insert,
    table: Table,
    schema: Schema,
    rows: Frame,
    fixed: dict[str, str],
    engine: SqlEngine,
) -> Frame:
    names = list(rows.columns) if statement.by_name else _list_target_columns(statement, schema, fixed)
    folded = [name.casefold() for name in names]
    for name in names:
        schema.column(name)
        if folded.count(name.casefold()) > 1:
            raise InvalidInputError(f"column {name!r} is given twice")
    constants = [(schema.column(name), value) for name, value in fixed.items()]
    for column, _ in constants:
        if column.name.casefold() in folded:
            raise InvalidInputError(f"column {column.name!r} is set by PARTITION and by the query; remove one of them")
    fitted = engine.cast_for_assignment(rows, names, schema, str(table), fields_by_name=statement.by_name)
    return engine.add_literal_columns(fitted, {column.name: text for column, text in constants}, schema)


def _overwrite_rows(
    statement: Insert, table: Table, schema: Schema, rows: Frame, fixed: dict[str, str], engine: SqlEngine
) -> RowCounts:
    where = _build_partition_predicate(schema, engine.compute_literals(fixed, schema)) if fixed else None
    if statement.if_not_exists and where is not None and table.scan(where).count():
        return NO_ROWS
    if _is_dynamic(statement, table, schema, fixed, engine):
        return table.overwrite_partitions(rows)
    return table.overwrite(rows, where=where)


def _is_dynamic(statement: Insert, table: Table, schema: Schema, fixed: Collection[str], engine: SqlEngine) -> bool:
    """Return whether the partitions of the new rows are replaced, and not all rows with the fixed values."""
    is_requested = len(fixed) < len(statement.partition)
    if not fixed:
        return is_requested or engine.is_overwrite_dynamic()
    fields = parse_partition_scheme(table.partition_by, schema).fields
    columns = {field.source_id for field in fields if isinstance(field.transform, Identity)}
    others = [name for name in fixed if schema.column(name).id not in columns]
    if is_requested and others:
        raise InvalidInputError(
            f"{table} is not partitioned by the values of {others[0]}, so PARTITION cannot have one beside a column "
            "without a value; use REPLACE WHERE"
        )
    is_derivable = not any(isinstance(field.transform, Bucket | Truncate) for field in fields)
    is_open = len(fields) > len(fixed)
    return is_requested or (engine.is_overwrite_dynamic() and is_open and is_derivable and not others)


def _build_partition_predicate(schema: Schema, values: Any) -> Predicate:
    """Return the predicate that columns have the values of an Arrow table of one row, as the new rows do."""
    return AllOf(tuple(_build_equality(schema.column(name), values.column(name)[0]) for name in values.column_names))


def _build_equality(column: Column, scalar: Any) -> Predicate:
    if not scalar.is_valid:
        return IsNull(column.id)
    if isinstance(column.type, Float32 | Float64) and math.isnan(scalar.as_py()):
        return ColumnComparison(column.id, Operator.GREATER, math.inf)
    value = None if is_nested(column.type) else to_plain_value(scalar)
    if value is None:
        raise InvalidInputError(f"column {column.name!r} cannot have this value in PARTITION; use REPLACE WHERE")
    if isinstance(column.type, Char) and isinstance(value, str):
        value = value.ljust(column.type.length)
    return ColumnComparison(column.id, Operator.EQUAL, restore_zone(value, column.type))
