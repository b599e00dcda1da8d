"""Conversion between partition schemes and Iceberg partition specs, and between sort orders.

Scheme ids are strings here and numbers in Iceberg. Numbers follow the order in which a
table got its schemes, so they never change:

    spec 0     the scheme of the new table, as clients expect
    spec 1     unpartitioned, for files with unknown partition values, if the new table has partitions
    spec 1…    otherwise, or from 2 on, the other schemes with fields, oldest first
    order 0    unsorted, as Iceberg requires
    order 1…   the sort schemes with fields, oldest first

Field ids start at 1000. The same transform of the same column has the same field id in all
specs, as format version 2 requires.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, assert_never

from pyiceberg import partitioning, transforms
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.table import sorting
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder

from mangrove.errors import InvalidInputError
from mangrove.model.objects import TableVersion
from mangrove.model.partitioning import (
    UNPARTITIONED,
    UNSORTED,
    Bucket,
    Days,
    Direction,
    Hours,
    Identity,
    Months,
    Nulls,
    PartitionField,
    PartitionScheme,
    SortField,
    SortScheme,
    Transform,
    Truncate,
    Years,
    result_type_of,
    transform_name_of,
)
from mangrove.model.schema import Schema
from mangrove.model.types import Column, List, Map
from mangrove.tables.iceberg_names import begins_partitioned

__all__ = [
    "PublishedPartitionSpec",
    "PublishedSortOrder",
    "from_iceberg_sort_order",
    "from_iceberg_spec",
    "from_iceberg_transform",
    "list_published_sort_orders",
    "list_published_specs",
    "to_iceberg_sort_order",
    "to_iceberg_spec",
]

_IcebergTransform = transforms.Transform[Any, Any]
_OWN: Final[dict[type, Transform]] = {
    transforms.IdentityTransform: Identity(),
    transforms.YearTransform: Years(),
    transforms.MonthTransform: Months(),
    transforms.DayTransform: Days(),
    transforms.HourTransform: Hours(),
}


@dataclass(frozen=True, slots=True)
class PublishedPartitionSpec:
    """A partition scheme with its published Iceberg spec."""

    scheme: PartitionScheme
    spec: PartitionSpec


@dataclass(frozen=True, slots=True)
class PublishedSortOrder:
    """A sort scheme with its published Iceberg sort order."""

    scheme: SortScheme
    order: SortOrder


def list_published_specs(version: TableVersion) -> tuple[PublishedPartitionSpec, ...]:
    """Return all partition schemes of a table with their specs; the first in the list is unpartitioned.

    A scheme of a dropped column is omitted, because Iceberg could not resolve the type of its
    values. Its files are published as unpartitioned. A scheme with the fields of an earlier one has the same spec.
    """
    schema = _schema_of(version)
    numbers: dict[tuple[int, Transform], int] = {}
    unpartitioned_id = 1 if begins_partitioned(version) else 0
    found = [PublishedPartitionSpec(UNPARTITIONED, to_iceberg_spec(UNPARTITIONED, unpartitioned_id))]
    with_fields = [scheme for scheme in version.partition_schemes if scheme.fields]
    # Fields have the names of the newest scheme: one that a client renamed may be in earlier schemes too.
    newest = {_content_of(scheme): scheme for scheme in with_fields}
    specs: dict[tuple[tuple[int, Transform], ...], PartitionSpec] = {}
    spec_ids = (number for number in count() if number != unpartitioned_id)
    for spec_id, scheme in zip(spec_ids, with_fields, strict=False):
        content = _content_of(scheme)
        if content in specs:
            found.append(PublishedPartitionSpec(scheme, specs[content]))
            continue
        for field in scheme.fields:
            # Omitted schemes are numbered too, so that a field id never changes its meaning.
            numbers.setdefault((field.source_id, field.transform), PARTITION_FIELD_ID_START + len(numbers))
        if all(schema.has_id(field.source_id) for field in scheme.fields):
            field_ids = _without_repetition(scheme, numbers)
            specs[content] = to_iceberg_spec(newest[content], spec_id, schema, field_ids)
            found.append(PublishedPartitionSpec(scheme, specs[content]))
    return tuple(found)


def _content_of(scheme: PartitionScheme) -> tuple[tuple[int, Transform], ...]:
    return tuple((field.source_id, field.transform) for field in scheme.fields)


def list_published_sort_orders(version: TableVersion) -> tuple[PublishedSortOrder, ...]:
    """Return all sort schemes of a table with their Iceberg orders; the first is unsorted."""
    schema = _schema_of(version)
    found = [PublishedSortOrder(UNSORTED, to_iceberg_sort_order(UNSORTED, 0))]
    with_fields = [scheme for scheme in _sort_by_age(version.sort_schemes) if scheme.fields]
    for order_id, scheme in enumerate(with_fields, 1):
        if all(schema.has_id(field.source_id) for field in scheme.fields):
            found.append(PublishedSortOrder(scheme, to_iceberg_sort_order(scheme, order_id, schema)))
    return tuple(found)


def _sort_by_age(schemes: tuple[SortScheme, ...]) -> Sequence[SortScheme]:
    """Return schemes in the order in which the table got them; the current one may be an earlier one again."""
    if not all(one.id.isascii() and one.id.isdecimal() for one in schemes):
        # Ids of other writers have no order.
        return schemes
    return sorted(schemes, key=lambda one: int(one.id))


def to_iceberg_spec(
    scheme: PartitionScheme, spec_id: int, schema: Schema | None = None, field_ids: Sequence[int] | None = None
) -> PartitionSpec:
    """Return the spec of a scheme; with `schema`, field names do not collide with columns.

    In Iceberg only an identity field may have the name of its source column. Without
    `field_ids` the field ids start at 1000.
    """
    numbers = range(PARTITION_FIELD_ID_START, PARTITION_FIELD_ID_START + len(scheme.fields))
    fields: list[partitioning.PartitionField] = []
    for field, field_id in zip(scheme.fields, numbers if field_ids is None else field_ids, strict=True):
        name = field.name
        if schema is not None:
            _check_source(field.source_id, schema, f"partition field {name!r}")
            taken = {".".join(path) for path, column in schema.all_columns() if not _is_itself(field, column)}
            others = {other.name for other in scheme.fields if other is not field}
            name = _free_name(field, taken, others | {other.name for other in fields})
        transform = _iceberg_transform(field.transform)
        fields.append(partitioning.PartitionField(field.source_id, field_id, transform, name))
    return PartitionSpec(*fields, spec_id=spec_id)


def from_iceberg_spec(
    spec: PartitionSpec, schema: Schema, scheme_id: str = "0", known: Iterable[PartitionScheme] = ()
) -> PartitionScheme:
    """Return the scheme of a spec; an equivalent scheme in `known` is returned itself.

    Void fields are ignored.
    """
    fields: list[PartitionField] = []
    for field in spec.fields:
        if isinstance(field.transform, transforms.VoidTransform):
            continue
        where = f"partition field {field.name!r}"
        own = from_iceberg_transform(field.transform, where)
        result_type_of(own, _check_source(field.source_id, schema, where).type)
        fields.append(PartitionField(field.source_id, own, field.name))
    transforms_by_source = [(field.source_id, field.transform) for field in fields]
    for scheme in known:
        if [(field.source_id, field.transform) for field in scheme.fields] == transforms_by_source:
            return scheme
    return PartitionScheme(tuple(fields), scheme_id)


def to_iceberg_sort_order(scheme: SortScheme, order_id: int, schema: Schema | None = None) -> SortOrder:
    """Return the sort order of a scheme; a scheme without fields is always order 0."""
    if not scheme.fields:
        return sorting.UNSORTED_SORT_ORDER
    fields: list[sorting.SortField] = []
    for field in scheme.fields:
        if schema is not None:
            _check_source(field.source_id, schema, "a sort field")
        fields.append(
            sorting.SortField(
                field.source_id,
                _iceberg_transform(field.transform),
                SortDirection.ASC if field.direction is Direction.ASCENDING else SortDirection.DESC,
                NullOrder.NULLS_FIRST if field.nulls is Nulls.FIRST else NullOrder.NULLS_LAST,
            )
        )
    return SortOrder(*fields, order_id=order_id)


def from_iceberg_sort_order(
    order: SortOrder, schema: Schema, scheme_id: str = "0", known: Iterable[SortScheme] = ()
) -> SortScheme:
    """Return the scheme of a sort order; an equivalent scheme in `known` is returned itself."""
    fields: list[SortField] = []
    for field in order.fields:
        where = f"a sort field of column {field.source_id}"
        own = from_iceberg_transform(field.transform, where)
        result_type_of(own, _check_source(field.source_id, schema, where).type)
        fields.append(
            SortField(
                field.source_id,
                Direction.ASCENDING if field.direction is SortDirection.ASC else Direction.DESCENDING,
                Nulls.FIRST if field.null_order is NullOrder.NULLS_FIRST else Nulls.LAST,
                own,
            )
        )
    return next((scheme for scheme in known if scheme.fields == tuple(fields)), SortScheme(tuple(fields), scheme_id))


def from_iceberg_transform(found: _IcebergTransform, where: str) -> Transform:
    """Return the transform for an Iceberg transform; raise InvalidInputError if it is unsupported."""
    match found:
        case transforms.BucketTransform():
            return Bucket(found.num_buckets)
        case transforms.TruncateTransform():
            return Truncate(found.width)
        case _:
            own = _OWN.get(type(found))
    if own is None:
        raise InvalidInputError(
            f"{where} has the unsupported transform {found}; expected identity, bucket, truncate, year, month, day or "
            "hour"
        )
    return own


def _iceberg_transform(transform: Transform) -> _IcebergTransform:
    match transform:
        case Identity():
            return transforms.IdentityTransform()
        case Bucket(count):
            return transforms.BucketTransform(count)
        case Truncate(width):
            return transforms.TruncateTransform(width)
        case Years():
            return transforms.YearTransform()
        case Months():
            return transforms.MonthTransform()
        case Days():
            return transforms.DayTransform()
        case Hours():
            return transforms.HourTransform()
        case _:
            assert_never(transform)


def _check_source(source_id: int, schema: Schema, where: str) -> Column:
    """Return the source column, which must exist and must not be inside a list or a map."""
    if not schema.has_id(source_id):
        raise InvalidInputError(f"{where} references column id {source_id}, which does not exist")
    path = schema.path_of(source_id)
    if any(isinstance(schema.column(*path[:depth]).type, List | Map) for depth in range(1, len(path))):
        raise InvalidInputError(
            f"{where} references {'.'.join(path)!r}, which is inside a list or a map; use a column with one value per "
            "row"
        )
    return schema.column_with_id(source_id)


def _without_repetition(scheme: PartitionScheme, numbers: Mapping[tuple[int, Transform], int]) -> tuple[int, ...]:
    found = tuple(numbers[field.source_id, field.transform] for field in scheme.fields)
    if len(set(found)) != len(found):
        names = ", ".join(repr(field.name) for field in scheme.fields)
        raise InvalidInputError(f"two of the partition fields {names} are the same, which Iceberg does not allow")
    return found


def _is_itself(field: PartitionField, column: Column) -> bool:
    return isinstance(field.transform, Identity) and field.source_id == column.id


def _free_name(field: PartitionField, columns: Set[str], others: Set[str]) -> str:
    """Return the field's name, or a longer one if another column has that name.

    Field names are also Avro names, which are ASCII. Writers escape other characters but not
    letters of other scripts, on which DuckDB fails.
    """
    name = "".join(letter if letter.isascii() else f"_x{ord(letter):X}" for letter in field.name)
    while name in columns or (name != field.name and name in others):
        name = f"{name}_{transform_name_of(field.transform)}"
    return name


def _schema_of(version: TableVersion) -> Schema:
    if version.schema is None:
        raise InvalidInputError("the table has no schema and cannot be published as Iceberg; add columns")
    return version.schema
