"""Schema evolution by Iceberg clients, and assignment of schema, spec and order ids.

What is there already keeps its number. A number that a client gave to something new
stays where it is free, since the client may have written files by it, and is the next
one otherwise. So `-1`, the last that was added, is resolved here too.
"""

from collections.abc import Hashable, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    TableUpdate,
)

from mangrove.errors import InvalidInputError
from mangrove.iceberg.schemas import from_iceberg_schema, to_iceberg_schema
from mangrove.model.objects import TableVersion
from mangrove.model.schema import Schema
from mangrove.model.types import Column, inner_columns, is_nested
from mangrove.tables.constraints import check_column_not_constrained, check_constraints_of
from mangrove.tables.schema_evolution import can_widen_type
from mangrove.tables.table_state import check_key_types

__all__ = ["apply_schema_update", "assign_ids", "replace_schema"]

_LAST_ADDED: Final = -1
_NUMBER_MAX: Final = 2**31 - 1


def assign_ids(before: TableMetadata, updates: Iterable[TableUpdate]) -> Iterator[TableUpdate]:
    """Yield the updates with the numbers that the server gives; what is there already is not added again."""
    schemas = _Numbers.of((_columns(one), one.schema_id) for one in before.schemas)
    specs = _Numbers.of((_spec_content(one), one.spec_id) for one in before.partition_specs)
    orders = _Numbers.of((_order_content(one), one.order_id) for one in before.sort_orders)
    for update in updates:
        match update:
            case AddSchemaUpdate(schema_=schema):
                for number in schemas.added(_columns(schema), schema.schema_id):
                    yield update.model_copy(update={"schema_": schema.model_copy(update={"schema_id": number})})
            case AddPartitionSpecUpdate(spec=spec):
                for number in specs.added(_spec_content(spec), spec.spec_id):
                    yield update.model_copy(update={"spec": spec.model_copy(update={"spec_id": number})})
            case AddSortOrderUpdate(sort_order=order):
                # 0 is no order at all, so an order has another number.
                wanted = order.order_id or (_LAST_ADDED if order.fields else 0)
                for number in orders.added(_order_content(order), wanted):
                    yield update.model_copy(update={"sort_order": order.model_copy(update={"order_id": number})})
            case SetCurrentSchemaUpdate(schema_id=number):
                yield update.model_copy(update={"schema_id": schemas.meant(number)})
            case SetDefaultSpecUpdate(spec_id=number):
                yield update.model_copy(update={"spec_id": specs.meant(number)})
            case SetDefaultSortOrderUpdate(sort_order_id=number):
                yield update.model_copy(update={"sort_order_id": orders.meant(number)})
            case _:
                yield update


@dataclass(slots=True)
class _Numbers:
    """The numbers of one kind of thing, while the updates of one request are looked through."""

    by_content: dict[Any, int]
    taken: set[int]
    said: dict[int, int] = field(default_factory=dict)
    """By the numbers that the client gave: those that they became."""
    last: int = _LAST_ADDED

    @staticmethod
    def of(there: Iterable[tuple[Hashable, int]]) -> "_Numbers":
        found = dict(there)
        return _Numbers(found, set(found.values()))

    def added(self, content: Hashable, said: int) -> Iterator[int]:
        """Yield the number that something is to be added with, and nothing if it is there."""
        known = self.by_content.get(content)
        self.last = self._free(said) if known is None else known
        # A number that was there before means what it has meant.
        if said not in self.taken:
            self.said[said] = self.last
        if known is None:
            self.by_content[content] = self.last
            self.taken.add(self.last)
            yield self.last

    def meant(self, number: int) -> int:
        """Return the number of what the client means."""
        return self.last if number == _LAST_ADDED else self.said.get(number, number)

    def _free(self, said: int) -> int:
        is_free = 0 <= said <= _NUMBER_MAX and said not in self.taken
        return said if is_free else 1 + max(self.taken, default=_LAST_ADDED if said >= 0 else 0)


def _columns(schema: IcebergSchema) -> Hashable:
    return schema.model_dump_json(exclude={"schema_id"})


def _spec_content(spec: PartitionSpec) -> Hashable:
    return tuple((one.source_id, str(one.transform), one.name) for one in spec.fields)


def _order_content(order: SortOrder) -> Hashable:
    return tuple(order.fields)


def apply_schema_update(version: TableVersion, found: IcebergSchema) -> TableVersion:
    """Return the table version with the columns that a client asks for; refuse what rows that are there do not fit."""
    before = version.schema
    if before is None:
        raise InvalidInputError("the table has no schema: rows of any columns may be written")
    after, keys = from_iceberg_schema(found, version.schemas, before.last_column_id)
    if set(keys) != set(to_iceberg_schema(before, version.keys).identifier_field_ids):
        raise InvalidInputError("the identifier fields are the table's keys, and those stay: make a new table")
    _check_ids(version, before, after)
    if after.columns == before.columns:
        return version
    following = 1 + max(schema.schema_id for schema in version.schemas)
    return replace(
        version, schema=replace(after, schema_id=following), earlier_schemas=(*version.earlier_schemas, before)
    )


def replace_schema(version: TableVersion, found: IcebergSchema) -> TableVersion:
    """Return the table version with other columns and keys, of which no row that is there has to be one."""
    before = version.schema
    if before is None:
        raise InvalidInputError("the table has no schema: rows of any columns may be written")
    if check_constraints_of(version):
        raise InvalidInputError(
            f"the table has the checks {', '.join(check_constraints_of(version))}: drop them before it is replaced"
        )
    # A column of the same name has the same id, and may be of any other type.
    after, keys = from_iceberg_schema(found, (), before.last_column_id)
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
            check_column_not_constrained(version, before.path_of(column_id))
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
        check_column_not_constrained(version, path)


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
    elif not can_widen_type(column.type, known.type):
        raise InvalidInputError(f"column {name!r} is {known.type}, and {column.type} does not hold all of its values")


def _with_parents(columns: tuple[Column, ...], parent: int | None) -> Iterator[tuple[int, tuple[Column, int | None]]]:
    for column in columns:
        yield column.id, (column, parent)
        yield from _with_parents(inner_columns(column.type), column.id)
