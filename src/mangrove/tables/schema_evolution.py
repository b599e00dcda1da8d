"""Schema evolution by column id."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_column, parse_type
from mangrove.model.objects import TableVersion
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import (
    Column,
    DataType,
    Decimal,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Struct,
    Varchar,
    is_nested,
)
from mangrove.tables.constraints import check_column_not_constrained, check_default

__all__ = [
    "add_column",
    "can_widen_type",
    "drop_column",
    "evolve_schema",
    "move_column",
    "rename_column",
    "set_column_comment",
    "set_column_default",
    "set_column_nullability",
    "widen_column",
]

_Columns = tuple[Column, ...]


def add_column(version: TableVersion, path: Sequence[str], type_words: str) -> TableVersion:
    """Return the table version with one more column, at the end of the table or of a struct."""
    schema = _schema_of(version)
    column = replace(parse_column(f"added {type_words}", schema.last_column_id), name=path[-1])
    if not column.nullable:
        raise InvalidInputError(
            f"column {'.'.join(path)!r} is not null, but existing rows have no value for it; make it nullable"
        )
    check_default(column)
    added = _apply_change(schema.columns, path[:-1], lambda columns: (*columns, column))
    last = max(inner.id for _, inner in Schema((column,)).all_columns())
    return _with_columns(version, added, last)


def rename_column(version: TableVersion, path: Sequence[str], name: str) -> TableVersion:
    """Return the table version with a renamed column."""
    if list(path[-1:]) != [name]:
        check_column_not_constrained(version, path)
    return _with_change(version, path, lambda column: replace(column, name=name))


def drop_column(version: TableVersion, path: Sequence[str]) -> TableVersion:
    """Return the table version without a column; its id is never reused."""
    schema = _schema_of(version)
    column = schema.column(*path)
    inside = {column.id, *(inner.id for _, inner in Schema((column,)).all_columns())}
    uses = {
        "a key": set(version.keys),
        "a partition column": {field.source_id for field in version.partition_scheme.fields},
        "a sort column": {field.source_id for field in version.sort_scheme.fields},
    }
    for use, ids in uses.items():
        if ids & inside:
            raise InvalidInputError(f"column {'.'.join(path)!r} is {use} and cannot be dropped")
    check_column_not_constrained(version, path)

    def without(columns: _Columns) -> _Columns:
        left = tuple(other for other in columns if other.id != column.id)
        if not left:
            raise InvalidInputError(f"column {'.'.join(path)!r} is the only one; drop what contains it")
        return left

    return _with_columns(version, _apply_change(schema.columns, path[:-1], without))


def widen_column(version: TableVersion, path: Sequence[str], type_words: str) -> TableVersion:
    """Return the table version with a wider column type."""
    new_type = parse_type(type_words)

    def widen(column: Column) -> Column:
        if not can_widen_type(new_type, column.type):
            raise InvalidInputError(
                f"column {'.'.join(path)!r} of type {format_type(column.type)} cannot be changed to "
                f"{format_type(new_type)}, which is not wider; integers and floats can be widened, "
                "decimals in precision, varchar in length"
            )
        return replace(column, type=new_type)

    return _with_change(version, path, widen)


def set_column_default(
    version: TableVersion, path: Sequence[str], default: str | None, *, is_new: bool = False
) -> TableVersion:
    """Return the table version with another column default, or none.

    A new table has no earlier schema to keep.
    """
    if len(path) != 1:
        raise InvalidInputError(f"{'.'.join(path)!r} is a struct field; only top-level columns have defaults")

    def with_it(column: Column) -> Column:
        found = replace(column, default=default)
        check_default(found)
        return found

    changed = _with_change(version, path, with_it)
    if not is_new or changed.schema is None:
        return changed
    return replace(changed, schema=replace(changed.schema, schema_id=0), earlier_schemas=())


def set_column_nullability(version: TableVersion, path: Sequence[str], *, nullable: bool) -> TableVersion:
    """Return the table version with another nullability of a column."""
    if nullable and _schema_of(version).column(*path).id in version.keys:
        raise InvalidInputError(f"column {'.'.join(path)!r} is a key and cannot be null")
    return _with_change(version, path, lambda column: replace(column, nullable=nullable))


def set_column_comment(version: TableVersion, path: Sequence[str], comment: str | None) -> TableVersion:
    """Return the table version with another column comment."""
    return _with_change(version, path, lambda column: replace(column, comment=comment))


def move_column(version: TableVersion, path: Sequence[str], after: str | None) -> TableVersion:
    """Return the table version with a column moved behind a sibling, or to the front."""
    schema = _schema_of(version)
    moved = schema.column(*path)
    before = None if after is None else schema.column(*path[:-1], after)

    def changed(columns: _Columns) -> _Columns:
        left = [column for column in columns if column.id != moved.id]
        ids = [column.id for column in left]
        if before is None:
            return (moved, *left)
        if before.id not in ids:
            raise InvalidInputError(f"column {'.'.join(path)!r} cannot be moved after itself")
        place = ids.index(before.id) + 1
        return (*left[:place], moved, *left[place:])

    return _with_columns(version, _apply_change(schema.columns, path[:-1], changed))


def evolve_schema(version: TableVersion, given: Mapping[str, DataType | None]) -> TableVersion:
    """Return the table version with all given columns added or widened; nothing is narrowed."""
    for name, data_type in given.items():
        columns = {column.name.casefold(): column for column in _schema_of(version).columns}
        column = columns.get(name.casefold())
        if data_type is None:
            continue
        if column is None:
            version = add_column(version, (name,), format_type(data_type))
        elif can_widen_type(data_type, column.type) and data_type != column.type:
            version = widen_column(version, (column.name,), format_type(data_type))
    return version


def can_widen_type(new: DataType, old: DataType) -> bool:
    """Return whether a column can be widened to the primitive type `new` without rewriting values."""
    match old, new:
        case (Int16(), Int16() | Int32() | Int64()) | (Int32(), Int32() | Int64()) | (Int64(), Int64()):
            return True
        case (Float32(), Float32() | Float64()) | (Float64(), Float64()):
            return True
        case Decimal(precision, scale), Decimal(wider, same):
            return scale == same and wider >= precision
        case Varchar(length), Varchar(longer):
            return longer is None or (length is not None and longer >= length)
        case _:
            return not is_nested(old) and old == new


def _with_change(version: TableVersion, path: Sequence[str], change: Callable[[Column], Column]) -> TableVersion:
    schema = _schema_of(version)
    found = schema.column(*path)

    def changed(columns: _Columns) -> _Columns:
        return tuple(change(column) if column.id == found.id else column for column in columns)

    return _with_columns(version, _apply_change(schema.columns, path[:-1], changed))


def _apply_change(columns: _Columns, path: Sequence[str], change: Callable[[_Columns], _Columns]) -> _Columns:
    """Return the columns with those of the struct at `path` changed; an empty path means the top level."""
    if not path:
        return change(columns)
    outer = Schema(columns).column(path[0])
    if not isinstance(outer.type, Struct):
        raise InvalidInputError(
            f"{path[0]!r} is not a struct; only columns of a table or fields of a struct can be changed"
        )
    inner = replace(outer, type=Struct(_apply_change(outer.type.columns, path[1:], change)))
    return tuple(inner if column.id == outer.id else column for column in columns)


def _schema_of(version: TableVersion) -> Schema:
    if version.schema is None:
        raise InvalidInputError("the table has no schema, so its columns cannot be changed")
    return version.schema


def _with_columns(version: TableVersion, columns: _Columns, last_column_id: int = 0) -> TableVersion:
    old = _schema_of(version)
    if columns == old.columns:
        return version
    following = 1 + max(schema.schema_id for schema in version.schemas)
    schema = Schema(columns, following, max(old.last_column_id, last_column_id))
    return replace(version, schema=schema, earlier_schemas=(*version.earlier_schemas, old))
