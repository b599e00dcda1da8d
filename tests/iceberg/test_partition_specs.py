"""Partition specs and sort orders to Iceberg and back, and partition values as PyIceberg computes them."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import partitioning
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    UnknownTransform,
    VoidTransform,
)
from pyiceberg.typedef import Record

from mangrove.errors import FormatError, InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.partition_specs import (
    from_iceberg_sort_order,
    from_iceberg_spec,
    list_published_sort_orders,
    list_published_specs,
    to_iceberg_sort_order,
    to_iceberg_spec,
)
from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.iceberg.values import from_partition_record, has_partition_record, to_partition_record
from mangrove.model.objects import TableVersion
from mangrove.model.partitioning import (
    UNPARTITIONED,
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
    parse_partition_scheme,
    parse_sort_scheme,
    result_type_of,
    transform_value,
)
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.model.values import Value
from mangrove.testing.strategies import values

COLUMNS = parse_schema(
    "a boolean, b smallint, c int, d bigint, e decimal(9, 2), f float, g double, h char(3), i varchar(7), j string, "
    "k date, l time, m timetz, n timestamp_ntz, o timestamp, p fixed(5), q binary, s struct<x: int>, t array<int>"
)
SCHEME = parse_partition_scheme(["days(o)", "bucket(16, d)", "j", "truncate(4, e)", "s.x"], COLUMNS)


def through_json(spec: PartitionSpec) -> PartitionSpec:
    return PartitionSpec.model_validate_json(spec.model_dump_json())


def fits(transform: Transform, column: Column) -> bool:
    try:
        result_type_of(transform, column.type)
    except InvalidInputError:
        return False
    return True


@st.composite
def transformed_columns(draw: st.DrawFn) -> tuple[Column, Transform]:
    kinds: st.SearchStrategy[Transform] = st.one_of(
        st.sampled_from([Identity(), Years(), Months(), Days(), Hours()]),
        st.builds(Bucket, st.integers(1, 2**31 - 1)),
        st.builds(Truncate, st.integers(1, 2**31 - 1)),
    )
    transform = draw(kinds)
    column = draw(st.sampled_from([column for column in COLUMNS.columns if fits(transform, column)]))
    return column, transform


@st.composite
def transformed_values(draw: st.DrawFn) -> tuple[Column, Transform, Value | None]:
    column, transform = draw(transformed_columns())
    if column.name == "e":
        number = st.decimals(-9_999_999, 9_999_999, places=2)
        return column, transform, draw(number)
    if column.name == "p":
        return column, transform, draw(st.binary(min_size=5, max_size=5))
    return column, transform, draw(st.none() | values(column.type))


def scheme_of(column: Column, transform: Transform) -> PartitionScheme:
    return PartitionScheme((PartitionField(column.id, transform, "field"),))


@given(transformed_values())
def test_partition_values_are_those_that_pyiceberg_computes(case: tuple[Column, Transform, Value | None]) -> None:
    column, transform, value = case
    scheme = scheme_of(column, transform)
    ours = transform_value(transform, column.type, value)
    if not has_partition_record([ours], scheme, COLUMNS):
        return  # Such a file is shown without partition values.
    source = to_iceberg_schema(COLUMNS).find_type(column.id)
    theirs = to_iceberg_spec(scheme, 1).fields[0].transform.transform(source)
    held = value if value is None else to_partition_record([value], scheme_of(column, Identity()), COLUMNS)[0]
    assert to_partition_record([ours], scheme, COLUMNS)[0] == theirs(held)


@given(transformed_values())
def test_partition_values_round_trip_through_a_manifest(case: tuple[Column, Transform, Value | None]) -> None:
    column, transform, value = case
    scheme = scheme_of(column, transform)
    ours = transform_value(transform, column.type, value)
    if has_partition_record([ours], scheme, COLUMNS):
        record = to_partition_record([ours], scheme, COLUMNS)
        assert from_partition_record(record, to_iceberg_spec(scheme, 1), scheme, COLUMNS, "a file") == (ours,)


@given(transformed_columns())
def test_every_valid_transform_round_trips_through_an_iceberg_spec(case: tuple[Column, Transform]) -> None:
    column, transform = case
    scheme = scheme_of(column, transform)
    spec = through_json(to_iceberg_spec(scheme, 3, COLUMNS))
    spec.check_compatible(to_iceberg_schema(COLUMNS))
    assert (spec.spec_id, from_iceberg_spec(spec, COLUMNS)) == (3, scheme)


def test_a_truncated_value_below_the_minimum_of_its_type_has_no_partition_record() -> None:
    scheme = scheme_of(COLUMNS.column("c"), Truncate(10))
    assert has_partition_record([-10], scheme, COLUMNS)
    assert not has_partition_record([-(2**31) - 2], scheme, COLUMNS)
    with pytest.raises(InvalidInputError, match="is not a valid value of type int"):
        to_partition_record([-(2**31) - 2], scheme, COLUMNS)


@pytest.mark.parametrize("column", ["f", "g"])
@pytest.mark.parametrize("value", [None, 0.0, -0.0])
def test_a_partition_that_may_hold_nan_or_the_other_zero_has_no_record(column: str, value: float | None) -> None:
    scheme = scheme_of(COLUMNS.column(column), Identity())
    assert not has_partition_record([value], scheme, COLUMNS)
    assert has_partition_record([1.5], scheme, COLUMNS)


def test_a_partition_of_bytes_of_a_fixed_length_has_no_record() -> None:
    assert not has_partition_record([b"12345"], scheme_of(COLUMNS.column("p"), Identity()), COLUMNS)
    assert has_partition_record([7], scheme_of(COLUMNS.column("p"), Bucket(8)), COLUMNS)


def test_a_clients_partition_of_nan_is_that_of_null() -> None:
    scheme = scheme_of(COLUMNS.column("g"), Identity())
    assert from_partition_record(Record(math.nan), to_iceberg_spec(scheme, 1), scheme, COLUMNS, "a file") == (None,)


def test_values_that_do_not_fit_the_scheme_are_refused() -> None:
    with pytest.raises(FormatError, match="2 values, but its scheme has 1 fields"):
        to_partition_record([1, 2], scheme_of(COLUMNS.column("c"), Identity()), COLUMNS)


@pytest.mark.parametrize(("column", "held"), [("o", 2**62), ("k", "x"), ("c", 2**40), ("j", 7)])
def test_an_impossible_partition_value_is_rejected(column: str, held: object) -> None:
    scheme = scheme_of(COLUMNS.column(column), Identity())
    with pytest.raises(InvalidInputError, match=r"a file has the value .* in partition field 'field'"):
        from_partition_record(Record(held), to_iceberg_spec(scheme, 1), scheme, COLUMNS, "a file")


def test_fields_are_numbered_from_1000() -> None:
    assert [field.field_id for field in to_iceberg_spec(SCHEME, 1).fields] == [1000, 1001, 1002, 1003, 1004]


def test_a_partition_field_is_renamed_if_another_column_has_its_name() -> None:
    columns = parse_schema("o timestamp, o_days int, o_days_days int, region string")
    scheme = parse_partition_scheme(["days(o)", "region"], columns)
    spec = to_iceberg_spec(scheme, 1, columns)
    assert [field.name for field in spec.fields] == ["o_days_days_days", "region"]
    for field in spec.fields:
        partitioning.validate_partition_name(
            field.name, field.transform, field.source_id, to_iceberg_schema(columns), set()
        )
    assert from_iceberg_spec(spec, columns, known=[scheme]) is scheme


def test_a_renamed_partition_field_does_not_collide_with_another_field() -> None:
    columns = parse_schema("a int, b int")
    fields = (PartitionField(1, Bucket(2), "b"), PartitionField(2, Bucket(2), "b_bucket"))
    spec = to_iceberg_spec(PartitionScheme(fields), 1, columns)
    assert [field.name for field in spec.fields] == ["b_bucket_bucket", "b_bucket"]


def test_a_partition_field_with_non_ascii_letters_is_published_with_escapes() -> None:
    columns = parse_schema("größe int, gr_xF6_xDFe int, `a b` int")
    scheme = parse_partition_scheme(["größe", "`a b`"], columns)
    spec = to_iceberg_spec(scheme, 1, columns)
    assert [field.name for field in spec.fields] == ["gr_xF6_xDFe_identity", "a b"]
    assert from_iceberg_spec(spec, columns, known=[scheme]) is scheme


def test_void_partition_fields_are_omitted_with_their_values() -> None:
    spec = PartitionSpec(
        partitioning.PartitionField(3, 1000, VoidTransform(), "gone"),
        partitioning.PartitionField(4, 1001, BucketTransform(8), "d_bucket"),
    )
    scheme = from_iceberg_spec(spec, COLUMNS, "7")
    assert scheme == PartitionScheme((PartitionField(4, Bucket(8), "d_bucket"),), "7")
    assert from_partition_record(Record(None, 5), spec, scheme, COLUMNS, "a file") == (5,)


def test_an_unknown_transform_is_rejected() -> None:
    spec = PartitionSpec(partitioning.PartitionField(3, 1000, UnknownTransform("zorder"), "z"))
    with pytest.raises(InvalidInputError, match=r"'z' has the unsupported transform"):
        from_iceberg_spec(spec, COLUMNS)


@pytest.mark.parametrize(
    ("source", "words"), [(99, "which does not exist"), (21, "is inside a list or a map"), (1, "does not support")]
)
def test_fields_of_columns_that_cannot_divide_rows_are_refused(source: int, words: str) -> None:
    spec = PartitionSpec(partitioning.PartitionField(source, 1000, DayTransform(), "z"))
    with pytest.raises(InvalidInputError, match=words):
        from_iceberg_spec(spec, COLUMNS)


def version_with(*schemes: PartitionScheme, schema: Schema = COLUMNS) -> TableVersion:
    return TableVersion(1, schema, partition_scheme=schemes[-1], earlier_partition_schemes=schemes[:-1])


def test_partition_specs_are_numbered_by_age_and_spec_0_is_that_of_the_new_table() -> None:
    first = parse_partition_scheme(["days(o)", "j"], COLUMNS, "first")
    second = parse_partition_scheme(["j", "bucket(4, d)"], COLUMNS, "second")
    none = replace(UNPARTITIONED, id="none")
    shown = list_published_specs(version_with(first, none, second))
    assert [(one.scheme.id, one.spec.spec_id) for one in shown] == [("0", 1), ("first", 0), ("second", 2)]
    later = list_published_specs(version_with(none, first, second))
    assert [(one.scheme.id, one.spec.spec_id) for one in later] == [("0", 0), ("first", 1), ("second", 2)]
    assert [[field.field_id for field in one.spec.fields] for one in shown] == [[], [1000, 1001], [1001, 1002]]


def test_a_scheme_of_a_dropped_column_is_not_published_but_keeps_its_number() -> None:
    first = parse_partition_scheme(["days(o)"], COLUMNS, "first")
    second = parse_partition_scheme(["j"], COLUMNS, "second")
    left = replace(COLUMNS, columns=tuple(column for column in COLUMNS.columns if column.name != "o"))
    shown = list_published_specs(version_with(first, second, schema=left))
    assert [(one.scheme.id, one.spec.spec_id) for one in shown] == [("0", 1), ("second", 2)]
    assert shown[1].spec.fields[0].field_id == 1001


def test_duplicate_partition_fields_are_rejected() -> None:
    fields = (PartitionField(4, Identity(), "x"), PartitionField(4, Identity(), "y"))
    with pytest.raises(InvalidInputError, match="are the same"):
        list_published_specs(version_with(PartitionScheme(fields)))


def test_publishing_a_schemaless_table_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="has no schema"):
        list_published_specs(TableVersion(1, None))


@given(
    st.lists(
        st.tuples(transformed_columns(), st.sampled_from(Direction), st.sampled_from(Nulls)), min_size=1, max_size=3
    )
)
def test_sort_orders_round_trip(cases: list[tuple[tuple[Column, Transform], Direction, Nulls]]) -> None:
    fields = tuple(SortField(column.id, order, nulls, transform) for (column, transform), order, nulls in cases)
    scheme = SortScheme(fields)
    order = SortOrder.model_validate_json(to_iceberg_sort_order(scheme, 4, COLUMNS).model_dump_json())
    order.check_compatible(to_iceberg_schema(COLUMNS))
    assert (order.order_id, from_iceberg_sort_order(order, COLUMNS)) == (4, scheme)


def test_no_order_is_iceberg_order_0() -> None:
    assert to_iceberg_sort_order(SortScheme(), 5) == UNSORTED_SORT_ORDER
    assert from_iceberg_sort_order(UNSORTED_SORT_ORDER, COLUMNS) == SortScheme()


def test_a_sort_scheme_that_is_known_keeps_its_id_and_name() -> None:
    known = replace(parse_sort_scheme(["o desc"], COLUMNS, "mine"), name="newest first")
    assert from_iceberg_sort_order(to_iceberg_sort_order(known, 1), COLUMNS, known=[SortScheme(), known]) is known


def test_sort_orders_are_numbered_by_age() -> None:
    first = parse_sort_scheme(["o"], COLUMNS, "first")
    second = parse_sort_scheme(["j"], COLUMNS, "second")
    version = TableVersion(1, COLUMNS, sort_scheme=second, earlier_sort_schemes=(first, SortScheme()))
    assert [(one.scheme.id, one.order.order_id) for one in list_published_sort_orders(version)] == [
        ("0", 0),
        ("first", 1),
        ("second", 2),
    ]
    left = replace(COLUMNS, columns=tuple(column for column in COLUMNS.columns if column.name != "o"))
    assert [one.order.order_id for one in list_published_sort_orders(replace(version, schema=left))] == [0, 2]


def test_identity_of_a_column_may_have_the_columns_own_name() -> None:
    spec = to_iceberg_spec(parse_partition_scheme(["j", "s.x"], COLUMNS), 1, COLUMNS)
    assert [(field.name, field.transform) for field in spec.fields] == [
        ("j", IdentityTransform()),
        ("s.x", IdentityTransform()),
    ]
