"""The columns that an Iceberg client gives a table, as our next ones: found by their ids, changed by our own rules."""

from collections.abc import Iterator, Set
from dataclasses import replace

from pyiceberg.schema import Schema as IcebergSchema

from mangrove.errors import InvalidInputError
from mangrove.iceberg.schemas import iceberg_schema, own_schema
from mangrove.model.objects import TableVersion
from mangrove.model.schema import Schema
from mangrove.model.types import Column, inner_columns, is_nested
from mangrove.tables.constraints import checks_of, refuse_if_checked
from mangrove.tables.evolution import holds_all
from mangrove.tables.table_state import check_key_types

__all__ = ["with_columns_of", "with_replaced_columns"]


def with_columns_of(version: TableVersion, found: IcebergSchema) -> TableVersion:
    """Return the table version with the columns that a client asks for; refuse what rows that are there do not fit."""
    before = version.schema
    if before is None:
        raise InvalidInputError("the table has no schema: rows of any columns may be written")
    after, keys = own_schema(found, version.schemas, before.last_column_id)
    if set(keys) != set(iceberg_schema(before, version.keys).identifier_field_ids):
        raise InvalidInputError("the identifier fields are the table's keys, and those stay: make a new table")
    _check_ids(version, before, after)
    if after.columns == before.columns:
        return version
    following = 1 + max(schema.schema_id for schema in version.schemas)
    return replace(
        version, schema=replace(after, schema_id=following), earlier_schemas=(*version.earlier_schemas, before)
    )


def with_replaced_columns(version: TableVersion, found: IcebergSchema) -> TableVersion:
    """Return the table version with other columns and keys, of which no row that is there has to be one."""
    before = version.schema
    if before is None:
        raise InvalidInputError("the table has no schema: rows of any columns may be written")
    if checks_of(version):
        raise InvalidInputError(
            f"the table has the checks {', '.join(checks_of(version))}: drop them before it is replaced"
        )
    # A column of the same name has the same id, and may be of any other type.
    after, keys = own_schema(found, (), before.last_column_id)
    if not all(after.has_id(field.source_id) for field in version.partition_scheme.fields):
        raise InvalidInputError(
            "a column that the table is partitioned by is gone: make a new table with other partitions"
        )
    following = 1 + max(schema.schema_id for schema in version.schemas)
    check_key_types("the table", [after.column_with_id(key) for key in keys])
    return replace(
        version,
        schema=replace(after, schema_id=following),
        earlier_schemas=(*version.earlier_schemas, before),
        keys=keys,
    )


def _check_ids(version: TableVersion, before: Schema, after: Schema) -> None:
    was = dict(_with_parents(before.columns, None))
    now = dict(_with_parents(after.columns, None))
    _check_dropped(version, before, was.keys() - now.keys())
    for column_id, (column, parent) in now.items():
        path = after.path_of(column_id)
        if column_id not in was:
            _check_added(path, column, parent, was.keys(), before.last_column_id)
            continue
        known, known_parent = was[column_id]
        if parent != known_parent:
            raise InvalidInputError(f"column {'.'.join(path)!r} was moved into or out of a struct: columns stay there")
        if path != before.path_of(column_id):
            refuse_if_checked(version, before.path_of(column_id))
        _check_changed(version, path, known, column)


def _check_dropped(version: TableVersion, before: Schema, gone: Set[int]) -> None:
    uses = {
        "a key": set(version.keys),
        "what the table is partitioned by": {field.source_id for field in version.partition_scheme.fields},
        "what the table is sorted by": {field.source_id for field in version.sort_scheme.fields},
    }
    for column_id in sorted(gone):
        path = before.path_of(column_id)
        for use, ids in uses.items():
            if column_id in ids:
                raise InvalidInputError(f"column {'.'.join(path)!r} is {use}, so it cannot be dropped")
        refuse_if_checked(version, path)


def _check_added(path: tuple[str, ...], column: Column, parent: int | None, known: Set[int], last: int) -> None:
    if column.id <= last:
        raise InvalidInputError(
            f"column {'.'.join(path)!r} has the id {column.id}, and ids up to {last} were given before: take a new one"
        )
    # Inside a column that is new itself there are no rows yet.
    is_inside_new = parent is not None and parent not in known
    if not column.nullable and not is_inside_new:
        raise InvalidInputError(
            f"column {'.'.join(path)!r} is required, and the rows that are there have no value in it: make it optional"
        )


def _check_changed(version: TableVersion, path: tuple[str, ...], known: Column, column: Column) -> None:
    name = ".".join(path)
    if known.nullable and not column.nullable:
        raise InvalidInputError(f"column {name!r} may be null in rows that are there: make it required with SQL")
    if column.nullable and column.id in version.keys:
        raise InvalidInputError(f"column {name!r} is a key: keys are never null")
    if is_nested(known.type) or is_nested(column.type):
        if type(known.type) is not type(column.type):
            raise InvalidInputError(f"column {name!r} is {known.type} and cannot become {column.type}")
    elif not holds_all(column.type, known.type):
        raise InvalidInputError(f"column {name!r} is {known.type}, and {column.type} does not hold all of its values")


def _with_parents(columns: tuple[Column, ...], parent: int | None) -> Iterator[tuple[int, tuple[Column, int | None]]]:
    for column in columns:
        yield column.id, (column, parent)
        yield from _with_parents(inner_columns(column.type), column.id)
