"""Schema evolution by Iceberg clients, and assignment of schema, spec and order ids.

Existing schemas, specs and orders keep their ids. A new one keeps the client's id if that
is free, because the client may have written files with it, and gets the next id otherwise.
The id `-1`, the last one added, is resolved here too.
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
from mangrove.iceberg.defaults import INITIAL_DEFAULT
from mangrove.iceberg.schemas import (
    check_format_version,
    from_iceberg_schema,
    replace_identifier_fields,
    to_iceberg_schema,
)
from mangrove.model.objects import TableVersion
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import Column, inner_columns, is_nested
from mangrove.tables.constraints import check_column_not_constrained, check_constraints_of
from mangrove.tables.schema_evolution import can_widen_type
from mangrove.tables.table_state import check_key_types

__all__ = [
    "DefaultChanges",
    "apply_schema_update",
    "assign_ids",
    "check_no_constraints",
    "list_initial_defaults",
    "replace_schema",
]

_LAST_ADDED: Final = -1
_ID_MAX: Final = 2**31 - 1


def assign_ids(before: TableMetadata, updates: Iterable[TableUpdate]) -> Iterator[TableUpdate]:
    """Yield the updates with server-assigned ids; schemas, specs and orders that exist are not added again."""
    schemas = _IdAssignment.of((_columns(one), one.schema_id) for one in before.schemas)
    specs = _IdAssignment.of((_spec_content(one), one.spec_id) for one in before.partition_specs)
    orders = _IdAssignment.of((_order_content(one), one.order_id) for one in before.sort_orders)
    for update in updates:
        match update:
            case AddSchemaUpdate(schema_=schema):
                for number in schemas.add(_columns(schema), schema.schema_id):
                    yield update.model_copy(update={"schema_": schema.model_copy(update={"schema_id": number})})
            case AddPartitionSpecUpdate(spec=spec):
                for number in specs.add(_spec_content(spec), spec.spec_id):
                    yield update.model_copy(update={"spec": spec.model_copy(update={"spec_id": number})})
            case AddSortOrderUpdate(sort_order=order):
                # Id 0 is reserved for the unsorted order.
                client_id = order.order_id or (_LAST_ADDED if order.fields else 0)
                for number in orders.add(_order_content(order), client_id):
                    yield update.model_copy(update={"sort_order": order.model_copy(update={"order_id": number})})
            case SetCurrentSchemaUpdate(schema_id=number):
                yield update.model_copy(update={"schema_id": schemas.resolve(number)})
            case SetDefaultSpecUpdate(spec_id=number):
                yield update.model_copy(update={"spec_id": specs.resolve(number)})
            case SetDefaultSortOrderUpdate(sort_order_id=number):
                yield update.model_copy(update={"sort_order_id": orders.resolve(number)})
            case _:
                yield update


@dataclass(slots=True)
class _IdAssignment:
    """The ids of the schemas, specs or orders of a table while the updates of one request are applied."""

    by_content: dict[Any, int]
    taken: set[int]
    by_client_id: dict[int, int] = field(default_factory=dict)
    """The assigned ids by the ids of the client."""
    last: int = _LAST_ADDED

    @staticmethod
    def of(existing: Iterable[tuple[Hashable, int]]) -> "_IdAssignment":
        by_content = dict(existing)
        return _IdAssignment(by_content, set(by_content.values()))

    def add(self, content: Hashable, client_id: int) -> Iterator[int]:
        """Yield the id of new content; yield nothing if the content exists."""
        known = self.by_content.get(content)
        self.last = self._free(client_id) if known is None else known
        # An existing id keeps its meaning.
        if client_id not in self.taken:
            self.by_client_id[client_id] = self.last
        if known is None:
            self.by_content[content] = self.last
            self.taken.add(self.last)
            yield self.last

    def resolve(self, client_id: int) -> int:
        """Return the assigned id for an id of the client."""
        return self.last if client_id == _LAST_ADDED else self.by_client_id.get(client_id, client_id)

    def _free(self, client_id: int) -> int:
        is_free = 0 <= client_id <= _ID_MAX and client_id not in self.taken
        return client_id if is_free else 1 + max(self.taken, default=_LAST_ADDED if client_id >= 0 else 0)


def _columns(schema: IcebergSchema) -> Hashable:
    return schema.model_dump_json(exclude={"schema_id"})


def _spec_content(spec: PartitionSpec) -> Hashable:
    return tuple((one.source_id, str(one.transform), one.name) for one in spec.fields)


def _order_content(order: SortOrder) -> Hashable:
    return tuple(order.fields)


@dataclass(frozen=True, slots=True)
class DefaultChanges:
    """What decides about the defaults of columns in format version 3."""

    published: IcebergSchema
    """The columns as the client loaded them."""
    has_rows: bool


def list_initial_defaults(schema: Schema) -> dict[int, str]:
    """Return the initial defaults of columns by id, as SQL text."""
    return {
        column.id: column.properties[INITIAL_DEFAULT]
        for column in schema.columns
        if INITIAL_DEFAULT in column.properties
    }


def _check_initial_defaults(before: Schema, after: Schema, *, has_rows: bool) -> None:
    known, existing = list_initial_defaults(before), {column.id for column in before.columns}
    for column_id, text in list_initial_defaults(after).items():
        if has_rows and column_id in existing and known.get(column_id) != text:
            raise InvalidInputError(
                f"column {after.column_with_id(column_id).name!r} has rows, so it cannot get the initial default "
                f"{text}; give the rows its values, and add a write default"
            )


def apply_schema_update(
    version: TableVersion,
    found: IcebergSchema,
    *,
    can_change_keys: bool = False,
    defaults: DefaultChanges | None = None,
    is_empty: bool = False,
) -> TableVersion:
    """Return the table version with the client's columns and keys; existing rows must fit them.

    The keys can change if no delta refers to them and they do not decide how deltas are split into logs.
    Without `defaults` the columns of a client have none. Columns can be required and get any
    type if the table is empty.
    """
    before = version.schema
    if before is None:
        raise InvalidInputError("the table has no schema, so its columns cannot be changed")
    after, keys = from_iceberg_schema(
        found,
        version.schemas,
        before.last_column_id,
        has_defaults=defaults is not None,
        published=None if defaults is None else defaults.published,
    )
    check_format_version(after, 2 if defaults is None else 3)
    if defaults is not None:
        _check_initial_defaults(before, after, has_rows=defaults.has_rows)
    has_other_keys = set(keys) != set(to_iceberg_schema(before, version.keys).identifier_field_ids)
    if has_other_keys and not can_change_keys:
        raise InvalidInputError(
            "the identifier fields are the table's keys, which cannot be changed if the table has partitions, or rows "
            "that were upserted or deleted by key; compact the table, or replace it"
        )
    changed = replace(version, keys=()) if has_other_keys else version
    _check_ids(changed, before, after, is_empty=is_empty)
    identifiers = set(to_iceberg_schema(before, version.identifier_fields).identifier_field_ids)
    if after.columns == before.columns and set(found.identifier_field_ids) == identifiers:
        return version
    following = 1 + max(schema.schema_id for schema in version.schemas)
    check_key_types("the table", [after.column_with_id(key) for key in keys])
    following_version = replace(
        changed,
        schema=replace(after, schema_id=following),
        earlier_schemas=(*version.earlier_schemas, before),
        keys=keys if has_other_keys else version.keys,
    )
    return replace_identifier_fields(following_version, found)


def replace_schema(version: TableVersion, found: IcebergSchema, *, has_defaults: bool = False) -> TableVersion:
    """Return the table version with new columns and keys that existing rows need not fit."""
    before = version.schema
    if before is None:
        raise InvalidInputError("the table has no schema, so its columns cannot be replaced")
    check_no_constraints(version)
    # A column with the same name keeps its id and may change to any type.
    after, keys = from_iceberg_schema(found, (), before.last_column_id, has_defaults=has_defaults)
    check_format_version(after, 3 if has_defaults else 2)
    following = 1 + max(schema.schema_id for schema in version.schemas)
    check_key_types("the table", [after.column_with_id(key) for key in keys])
    replaced = replace(
        version,
        schema=replace(after, schema_id=following),
        earlier_schemas=(*version.earlier_schemas, before),
        keys=keys,
    )
    return replace_identifier_fields(replaced, found)


def check_no_constraints(version: TableVersion) -> None:
    """Raise InvalidInputError if a table that a client replaces has checks, which its new rows could violate."""
    if check_constraints_of(version):
        raise InvalidInputError(
            f"the table has check constraints {', '.join(check_constraints_of(version))}; drop them before replacing it"
        )


def _check_ids(version: TableVersion, before: Schema, after: Schema, *, is_empty: bool) -> None:
    was = dict(_with_parents(before.columns, None))
    now = dict(_with_parents(after.columns, None))
    _check_dropped(version, before, was.keys() - now.keys())
    for column_id, (column, parent) in now.items():
        path = after.path_of(column_id)
        if column_id not in was:
            # A new parent column has no values in existing rows.
            is_without_rows = is_empty or (parent is not None and parent not in was)
            is_filled = is_without_rows or INITIAL_DEFAULT in column.properties
            _check_added(path, column, before.last_column_id, is_without_rows=is_filled)
            continue
        known, known_parent = was[column_id]
        if parent != known_parent:
            raise InvalidInputError(f"column {'.'.join(path)!r} cannot be moved into or out of a struct")
        if path != before.path_of(column_id):
            check_column_not_constrained(version, before.path_of(column_id))
        _check_changed(version, path, known, column, is_empty=is_empty)


def _check_dropped(version: TableVersion, before: Schema, dropped: Set[int]) -> None:
    uses = {
        "a key column": set(version.keys),
        "a partition column": {field.source_id for field in version.partition_scheme.fields},
        "a sort column": {field.source_id for field in version.sort_scheme.fields},
    }
    for column_id in sorted(dropped):
        path = before.path_of(column_id)
        for use, ids in uses.items():
            if column_id in ids:
                raise InvalidInputError(f"column {'.'.join(path)!r} is {use} and cannot be dropped")
        check_column_not_constrained(version, path)


def _check_added(path: tuple[str, ...], column: Column, last: int, *, is_without_rows: bool) -> None:
    if column.id <= last:
        raise InvalidInputError(
            f"column {'.'.join(path)!r} has id {column.id}, but ids up to {last} are already assigned; use a new id"
        )
    if not column.nullable and not is_without_rows:
        raise InvalidInputError(
            f"new column {'.'.join(path)!r} is required, but existing rows have no value for it; make it optional"
        )


def _check_changed(
    version: TableVersion, path: tuple[str, ...], known: Column, column: Column, *, is_empty: bool
) -> None:
    name = ".".join(path)
    if column.nullable and column.id in version.keys:
        raise InvalidInputError(f"key column {name!r} cannot become optional")
    if is_empty:
        return
    if known.nullable and not column.nullable:
        raise InvalidInputError(f"column {name!r} may be null in existing rows; make it required with SQL")
    if is_nested(known.type) or is_nested(column.type):
        if type(known.type) is not type(column.type):
            raise InvalidInputError(
                f"column {name!r} of type {format_type(known.type)} cannot become {format_type(column.type)}"
            )
    elif not can_widen_type(column.type, known.type):
        raise InvalidInputError(
            f"column {name!r} of type {format_type(known.type)} cannot be widened to {format_type(column.type)}"
        )


def _with_parents(columns: tuple[Column, ...], parent: int | None) -> Iterator[tuple[int, tuple[Column, int | None]]]:
    for column in columns:
        yield column.id, (column, parent)
        yield from _with_parents(inner_columns(column.type), column.id)
