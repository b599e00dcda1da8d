"""Hypothesis strategies for schemas, values, locators and lakehouse objects."""

import datetime
import decimal
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from mangrove.model.locators import (
    LARGEST_INTEGER,
    AliasLocator,
    DeltaLocator,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.manifests import Author, ColumnStatistics, DataFile, FileKind, Manifest
from mangrove.model.names import join_name
from mangrove.model.objects import (
    AliasEntry,
    Delta,
    DeltaType,
    NamespaceEntry,
    Object,
    Partition,
    SharedTransactionEntry,
    SharedTransactionState,
    Stream,
    StreamState,
    TableEntry,
    TableType,
    TableVersion,
    TableVersionState,
    ViewEntry,
)
from mangrove.model.partitioning import (
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
)
from mangrove.model.schema import Schema, assign_fresh_ids
from mangrove.model.settings import LakehouseSettings
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Struct,
    Time,
    Timestamp,
    TimestampNs,
    TimestampTz,
    TimestampTzNs,
    TimeTz,
    Varchar,
    is_nested,
    list_of,
    map_of,
)
from mangrove.model.values import Value, normalize_value

__all__ = [
    "aliases",
    "column_statistics",
    "columns",
    "data_files",
    "data_types",
    "deltas",
    "ids",
    "lakehouse_settings",
    "locators",
    "manifests",
    "names",
    "namespaces",
    "objects",
    "partition_schemes",
    "partitions",
    "plain_types",
    "properties",
    "schemas",
    "shared_transactions",
    "sort_schemes",
    "streams",
    "table_versions",
    "tables",
    "texts",
    "transforms",
    "values",
    "values_of_one_type",
    "views",
]

_EXPRESSIONS: Final = st.sampled_from(["1", "'x'", "null", "current_timestamp()", "coalesce(a, 'b''c')", "a > 1"])


def texts(max_size: int = 12) -> st.SearchStrategy[str]:
    """Return a strategy for all text that UTF-8 can encode."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)


def names() -> st.SearchStrategy[str]:
    """Return a strategy for valid names of namespaces, tables and views."""
    return st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" /|"), min_size=1, max_size=10)


def ids() -> st.SearchStrategy[str]:
    """Return a strategy for ids: mostly UUIDs, sometimes named ones."""
    return st.uuids().map(str) | names().filter(lambda name: name not in (".", ".."))


def properties() -> st.SearchStrategy[dict[str, str]]:
    """Return properties."""
    return st.dictionaries(texts().filter(bool), texts(), max_size=3)


def plain_types() -> st.SearchStrategy[DataType]:
    """Return a strategy for types without nested columns that every layout has."""
    lengths = st.integers(1, 2**31 - 1)
    return st.one_of(
        st.sampled_from(
            [
                Boolean(),
                Int16(),
                Int32(),
                Int64(),
                Float32(),
                Float64(),
                Varchar(),
                Date(),
                Time(),
                TimeTz(),
                Timestamp(),
                TimestampTz(),
                Binary(),
            ]
        ),
        st.integers(1, 38).flatmap(lambda precision: st.builds(Decimal, st.just(precision), st.integers(0, precision))),
        st.builds(Char, lengths),
        st.builds(Varchar, lengths),
        st.builds(Fixed, st.integers(1, 2**28 - 1)),
    )


def data_types() -> st.SearchStrategy[DataType]:
    """Return a strategy for plain and nested types; nested columns have the id 0."""
    return st.recursive(plain_types(), _nested, max_leaves=3)


def columns(*, with_properties: bool = True) -> st.SearchStrategy[Column]:
    """Return a strategy for columns of any type; all ids are 0."""
    return st.builds(
        Column,
        id=st.just(0),
        name=texts().filter(bool),
        type=data_types(),
        nullable=st.booleans(),
        comment=st.none() | texts(),
        default=st.none() | _EXPRESSIONS,
        properties=properties() if with_properties else st.just({}),
    )


@st.composite
def schemas(draw: st.DrawFn, *, with_properties: bool = True, are_numbered_from_1: bool = False) -> Schema:
    """Return schemas; those numbered from 1 can be expressed as text without ids."""
    drawn = draw(
        st.lists(
            columns(with_properties=with_properties),
            min_size=1,
            max_size=3,
            unique_by=lambda column: column.name.casefold(),
        )
    )
    if are_numbered_from_1:
        return Schema(assign_fresh_ids(drawn))
    numbered = assign_fresh_ids(drawn, draw(st.integers(-1, 2**31 - 1000)))
    schema = Schema(numbered, draw(st.integers(0, 2**31 - 1)))
    return Schema(numbered, schema.schema_id, schema.last_column_id + draw(st.integers(0, 9)))


def transforms() -> st.SearchStrategy[Transform]:
    """Return transforms of every kind."""
    numbers = st.integers(1, 2**31 - 1)
    return st.one_of(
        st.sampled_from([Identity(), Years(), Months(), Days(), Hours()]),
        st.builds(Bucket, numbers),
        st.builds(Truncate, numbers),
    )


def partition_schemes(source_ids: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[PartitionScheme]:
    """Return a strategy for partition schemes; with `source_ids`, of identity transforms that fit any plain column."""
    sources = st.integers(0, 2**31 - 1) if source_ids is None else source_ids
    kinds = transforms() if source_ids is None else st.just(Identity())
    fields = st.builds(PartitionField, sources, kinds, texts().filter(bool))
    return st.builds(
        PartitionScheme,
        st.lists(fields, max_size=3, unique_by=lambda field: field.name.casefold()).map(tuple),
        ids(),
        st.none() | texts(),
    )


def sort_schemes() -> st.SearchStrategy[SortScheme]:
    """Return sort schemes."""
    fields = st.builds(
        SortField, st.integers(0, 2**31 - 1), st.sampled_from(Direction), st.sampled_from(Nulls), transforms()
    )
    return st.builds(SortScheme, st.lists(fields, max_size=3).map(tuple), ids(), st.none() | texts())


def values(data_type: DataType | None = None) -> st.SearchStrategy[Value]:
    """Return a strategy for values of a plain type, or of any plain type."""
    if data_type is None:
        return st.one_of(values_of_one_type())
    return _VALUES[type(data_type)]().map(normalize_value)


def values_of_one_type() -> list[st.SearchStrategy[Value]]:
    """Return a strategy of values for each plain type, for tests that must not mix types."""
    return [make().map(normalize_value) for make in _VALUES.values()]


def _nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.builds(Column, st.just(0), texts().filter(bool), inner, st.booleans(), st.none() | texts(max_size=5))
    return st.one_of(
        st.builds(lambda element, nullable: list_of(element, nullable=nullable), inner, st.booleans()),
        st.builds(
            lambda key, value, nullable: map_of(key, value, value_nullable=nullable), inner, inner, st.booleans()
        ),
        st.lists(fields, min_size=1, max_size=3, unique_by=lambda column: column.name.casefold()).map(
            lambda drawn: Struct(tuple(drawn))
        ),
    )


def _decimals() -> st.SearchStrategy[decimal.Decimal]:
    return st.builds(
        lambda unscaled, scale: decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=60)),
        st.integers(-(10**38) + 1, 10**38 - 1),
        st.integers(0, 38),
    )


_VALUES: Final[dict[type, Callable[[], st.SearchStrategy[Value]]]] = {
    Boolean: st.booleans,
    Int16: lambda: st.integers(-(2**15), 2**15 - 1),
    Int32: lambda: st.integers(-(2**31), 2**31 - 1),
    Int64: lambda: st.integers(-(2**63), 2**63 - 1),
    Decimal: _decimals,
    Float32: lambda: st.floats(allow_nan=False, width=32),
    Float64: lambda: st.floats(allow_nan=False),
    Char: texts,
    Varchar: texts,
    Date: st.dates,
    Time: st.times,
    TimeTz: lambda: st.times(timezones=st.just(datetime.UTC)),
    Timestamp: st.datetimes,
    TimestampTz: lambda: st.datetimes(timezones=st.just(datetime.UTC)),
    TimestampNs: lambda: st.integers(-(2**63), 2**63 - 1),
    TimestampTzNs: lambda: st.integers(-(2**63), 2**63 - 1),
    Fixed: lambda: st.binary(max_size=40),
    Binary: lambda: st.binary(max_size=40),
}


_COUNTS: Final = st.integers(0, LARGEST_INTEGER)
_ORDINALS: Final = st.integers(1, LARGEST_INTEGER)


def locators() -> st.SearchStrategy[Locator]:
    """Return locators of every kind."""
    table_version = (ids(), ids(), _ORDINALS)
    return st.one_of(
        st.builds(NamespaceLocator, names()),
        st.builds(TableLocator, names(), names()),
        st.builds(ViewLocator, names(), names()),
        st.builds(SharedTransactionLocator, names()),
        st.builds(AliasLocator, names() | st.builds("{}|{}".format, names(), names())),
        st.builds(TableVersionLocator, *table_version),
        st.builds(StreamLocator, *table_version, ids()),
        st.builds(PartitionLocator, *table_version, ids(), ids()),
        st.builds(DeltaLocator, *table_version, ids(), ids(), _ORDINALS),
    )


def column_statistics() -> st.SearchStrategy[ColumnStatistics]:
    """Return statistics of one column with bounds in order."""
    counts = st.none() | _COUNTS
    bounds = st.one_of([st.tuples(st.none() | one, st.none() | one).map(_in_order) for one in values_of_one_type()])
    return st.builds(
        lambda column_id, null, nan, count, size, bound: ColumnStatistics(column_id, null, nan, count, size, *bound),
        st.integers(0, 2**31 - 1),
        counts,
        counts,
        counts,
        counts,
        bounds,
    )


@st.composite
def data_files(draw: st.DrawFn) -> DataFile:
    """Return data files of every kind."""
    kind = draw(st.sampled_from(FileKind))
    statistics = draw(st.lists(column_statistics(), max_size=3, unique_by=lambda one: one.column_id))
    return DataFile(
        location=draw(st.sampled_from(["data/a.parquet", "s3://bucket/b.parquet", "dätä/ü"])),
        size_bytes=draw(_COUNTS),
        row_count=draw(_COUNTS),
        kind=kind,
        content_type=draw(st.sampled_from(["application/parquet", "text/csv", ""])),
        content_encoding=draw(st.sampled_from(["identity", "gzip", ""])),
        schema_id=draw(st.none() | st.integers(0, 2**31 - 1)),
        partition_values=draw(st.none() | _partition_values()),
        partition_scheme_id=draw(st.none() | ids()),
        sort_scheme_id=draw(st.none() | ids()),
        bucket=draw(st.none() | st.integers(0, 2**31 - 1)),
        source_size_bytes=draw(st.none() | _COUNTS),
        applies_to=draw(st.none() | texts()) if kind is FileKind.POSITION_DELETES else None,
        key_ids=tuple(draw(st.lists(st.integers(0, 2**31 - 1), max_size=2))),
        statistics=tuple(sorted(statistics, key=lambda one: one.column_id)),
    )


def manifests() -> st.SearchStrategy[Manifest]:
    """Return manifests of a few files."""
    return st.builds(Manifest, st.lists(data_files(), max_size=2).map(tuple), st.none() | ids(), st.none() | _authors())


def lakehouse_settings() -> st.SearchStrategy[LakehouseSettings]:
    """Return settings whose key table fits into a node file."""
    return st.builds(
        LakehouseSettings,
        name=texts(),
        order=st.integers(3, 1000),
        namespace_name_max_size_bytes=st.integers(1, 200),
        table_name_max_size_bytes=st.integers(1, 200),
        file_path_max_size_bytes=st.integers(1, 500),
        node_file_max_size_bytes=st.integers(1024 * 1024, LARGEST_INTEGER),
        properties=properties(),
        maximum_version_age_millis=_COUNTS,
        minimum_versions_to_keep=st.integers(1, 2**32 - 1),
        maximum_version_age_millis_overrides=st.dictionaries(_COUNTS, _COUNTS, max_size=3),
        exported_snapshots=properties(),
    )


def namespaces() -> st.SearchStrategy[NamespaceEntry]:
    """Return namespaces."""
    return st.builds(NamespaceEntry, ids(), names(), properties(), st.none() | texts())


@st.composite
def tables(draw: st.DrawFn) -> TableEntry:
    """Return tables of every type."""
    table_type = draw(st.sampled_from(TableType))
    schema = draw(st.none() | schemas())
    return TableEntry(
        id=draw(ids()),
        namespace_id=draw(ids()),
        name=draw(names()),
        table_type=table_type,
        table_format=draw(st.sampled_from(["MANGROVE", "ICEBERG", "PARQUET"])),
        description=draw(st.none() | texts()),
        properties=draw(properties()),
        format_properties=draw(properties()),
        location=None if table_type is TableType.MANAGED else draw(st.none() | texts()),
        latest_table_version=draw(st.none() | _ORDINALS),
        latest_active_table_version=draw(st.none() | _ORDINALS),
        schema=schema,
        keys=_some_keys(draw, schema),
    )


def views() -> st.SearchStrategy[ViewEntry]:
    """Return views."""
    dotted = st.lists(names(), min_size=1, max_size=2).map(lambda parts: join_name(*parts))
    return st.builds(
        ViewEntry,
        id=ids(),
        name=names(),
        sql=texts().map(lambda text: f"select '{text}'"),
        dialect=texts(),
        schema=st.none() | schemas(),
        reads=st.lists(dotted, max_size=2).map(tuple),
        properties=properties(),
        description=st.none() | texts(),
    )


def aliases() -> st.SearchStrategy[AliasEntry]:
    """Return aliases of namespaces and tables."""
    tables = st.builds("{}|{}".format, names(), names())
    return st.builds(AliasEntry, ids(), names(), names(), ids()) | st.builds(AliasEntry, ids(), tables, tables, ids())


@st.composite
def table_versions(draw: st.DrawFn) -> TableVersion:
    """Return table versions with earlier schemas and schemes."""
    drawn = draw(st.lists(schemas(), max_size=2, unique_by=lambda schema: schema.schema_id))
    schema = drawn[0] if drawn else None
    plain_ids = [column.id for column in schema.columns if not is_nested(column.type)] if schema else []
    current = draw(partition_schemes(st.sampled_from(plain_ids)) if plain_ids else st.just(PartitionScheme()))
    earlier = draw(st.lists(partition_schemes(), max_size=2, unique_by=lambda scheme: scheme.id))
    sorts = draw(st.lists(sort_schemes(), min_size=1, max_size=2, unique_by=lambda scheme: scheme.id))
    return TableVersion(
        version=draw(_ORDINALS),
        schema=schema,
        earlier_schemas=tuple(drawn[1:]),
        keys=_some_keys(draw, schema),
        partition_scheme=current,
        earlier_partition_schemes=tuple(scheme for scheme in earlier if scheme.id != current.id),
        sort_scheme=sorts[0],
        earlier_sort_schemes=tuple(sorts[1:]),
        state=draw(st.sampled_from(TableVersionState)),
        description=draw(st.none() | texts()),
        properties=draw(properties()),
        content_types=tuple(draw(st.lists(texts(), max_size=2))),
        watermark=draw(st.none() | _COUNTS),
        previous_version=draw(st.none() | _ORDINALS),
        latest_stream_id=draw(st.none() | ids()),
    )


def streams() -> st.SearchStrategy[Stream]:
    """Return streams."""
    return st.builds(Stream, ids(), ids(), ids(), st.sampled_from(StreamState), st.none() | ids(), st.none() | _COUNTS)


def partitions() -> st.SearchStrategy[Partition]:
    """Return partitions."""
    return st.builds(
        Partition,
        ids(),
        _partition_values(),
        ids(),
        st.sampled_from(StreamState),
        st.none() | ids(),
        st.lists(texts(), max_size=2).map(tuple),
        properties(),
    )


@st.composite
def deltas(draw: st.DrawFn) -> Delta:
    """Return deltas of every type."""
    delta_type = draw(st.sampled_from(DeltaType))
    replaces = delta_type is DeltaType.REPLACE
    return Delta(
        type=delta_type,
        manifest=draw(manifests()),
        properties=draw(properties()),
        author=draw(st.none() | _authors()),
        position=draw(st.none() | _ORDINALS),
        replaces_through=draw(st.none() | _COUNTS) if replaces else None,
        replaced_locations=tuple(draw(st.lists(texts(), max_size=2))) if replaces else (),
    )


def shared_transactions() -> st.SearchStrategy[SharedTransactionEntry]:
    """Return shared transactions."""
    return st.builds(
        lambda name, version, times, state, payload: SharedTransactionEntry(
            name, version, min(times), max(times), state, payload
        ),
        names(),
        _COUNTS,
        st.tuples(_COUNTS, _COUNTS),
        st.sampled_from(SharedTransactionState),
        st.binary(max_size=20),
    )


def objects() -> st.SearchStrategy[Object]:
    """Return objects of every kind."""
    return st.one_of(
        lakehouse_settings(),
        namespaces(),
        tables(),
        views(),
        shared_transactions(),
        aliases(),
        table_versions(),
        streams(),
        partitions(),
        deltas(),
    )


def _authors() -> st.SearchStrategy[Author]:
    return st.builds(Author, texts(), st.none() | texts())


def _partition_values() -> st.SearchStrategy[tuple[Value | None, ...]]:
    return st.lists(st.none() | values(), max_size=3).map(tuple)


def _some_keys(draw: st.DrawFn, schema: Schema | None) -> tuple[int, ...]:
    if schema is None:
        return ()
    return tuple(draw(st.lists(st.sampled_from([column.id for column in schema.columns]), max_size=2, unique=True)))


def _in_order(bounds: tuple[Any, Any]) -> tuple[Any, Any]:
    low, high = bounds
    return (high, low) if low is not None and high is not None and low > high else bounds
