"""Hypothesis strategies for names, types, schemas, schemes and values."""

import datetime
import decimal
from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

from mangrove.model.schema import Schema, with_fresh_ids
from mangrove.model.schemes import Direction, Nulls, PartitionField, PartitionScheme, SortField, SortScheme
from mangrove.model.transforms import Bucket, Days, Hours, Identity, Months, Transform, Truncate, Years
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float4,
    Float8,
    Int2,
    Int4,
    Int8,
    Struct,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
    list_of,
    map_of,
)
from mangrove.model.values import Value, canonical_value

__all__ = [
    "columns",
    "data_types",
    "ids",
    "names",
    "partition_schemes",
    "plain_types",
    "properties",
    "schemas",
    "sort_schemes",
    "texts",
    "transforms",
    "values",
    "values_of_one_type",
]

_EXPRESSIONS: Final = st.sampled_from(["1", "'x'", "null", "current_timestamp()", "coalesce(a, 'b''c')", "a > 1"])


def texts(max_size: int = 12) -> st.SearchStrategy[str]:
    """Return any text that UTF-8 can store."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)


def names() -> st.SearchStrategy[str]:
    """Return names that namespaces, tables and views may have."""
    return st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" /|"), min_size=1, max_size=10)


def ids() -> st.SearchStrategy[str]:
    """Return ids: mostly UUIDs, sometimes named ones."""
    return st.uuids().map(str) | names().filter(lambda name: name not in (".", ".."))


def properties() -> st.SearchStrategy[dict[str, str]]:
    """Return properties."""
    return st.dictionaries(texts().filter(bool), texts(), max_size=3)


def plain_types() -> st.SearchStrategy[DataType]:
    """Return types that hold no columns."""
    lengths = st.integers(1, 2**31 - 1)
    return st.one_of(
        st.sampled_from(
            [
                Boolean(),
                Int2(),
                Int4(),
                Int8(),
                Float4(),
                Float8(),
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
    """Return plain and nested types; the columns inside all have the id 0."""
    return st.recursive(plain_types(), _nested, max_leaves=3)


def columns(*, with_properties: bool = True) -> st.SearchStrategy[Column]:
    """Return columns of any type; all ids are 0."""
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
    """Return schemas; those numbered from 1 are what a text without ids can say."""
    drawn = draw(
        st.lists(
            columns(with_properties=with_properties),
            min_size=1,
            max_size=3,
            unique_by=lambda column: column.name.casefold(),
        )
    )
    if are_numbered_from_1:
        return Schema(with_fresh_ids(drawn))
    numbered = with_fresh_ids(drawn, draw(st.integers(-1, 2**31 - 1000)))
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
    """Return partition schemes; with `source_ids`, of identity transforms that fit any plain column."""
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
    """Return values of a plain type, or of any."""
    if data_type is None:
        return st.one_of(values_of_one_type())
    return _VALUES[type(data_type)]().map(canonical_value)


def values_of_one_type() -> list[st.SearchStrategy[Value]]:
    """Return for each plain type its values, for what must not mix them."""
    return [make().map(canonical_value) for make in _VALUES.values()]


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
    Int2: lambda: st.integers(-(2**15), 2**15 - 1),
    Int4: lambda: st.integers(-(2**31), 2**31 - 1),
    Int8: lambda: st.integers(-(2**63), 2**63 - 1),
    Decimal: _decimals,
    Float4: lambda: st.floats(allow_nan=False, width=32),
    Float8: lambda: st.floats(allow_nan=False),
    Char: texts,
    Varchar: texts,
    Date: st.dates,
    Time: st.times,
    TimeTz: lambda: st.times(timezones=st.just(datetime.UTC)),
    Timestamp: st.datetimes,
    TimestampTz: lambda: st.datetimes(timezones=st.just(datetime.UTC)),
    Fixed: lambda: st.binary(max_size=40),
    Binary: lambda: st.binary(max_size=40),
}
