"""Bodies of revision files: every object comes back as it was, and nothing that is unknown gets lost."""

from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError
from mangrove.layouts.deltacat.msgpack_maps import decode_map, encode_map
from mangrove.layouts.deltacat.object_codec import decode_body, encode_named_object
from mangrove.layouts.deltacat.table_codec import (
    encode_delta,
    encode_partition,
    encode_stream,
    encode_table_version,
)
from mangrove.model.locators import DeltaLocator, Kind, PartitionLocator, StreamLocator, TableVersionLocator
from mangrove.model.objects import (
    Delta,
    DeltaType,
    NamespaceEntry,
    Object,
    Partition,
    Stream,
    StreamState,
    TableEntry,
    TableVersion,
    kind_of,
)
from mangrove.model.partitioning import Days, PartitionField, PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Int64, Timestamp
from mangrove.testing import strategies


def _folder(value: Object) -> str:
    match value:
        case NamespaceEntry():
            return value.id
        case TableEntry():
            return f"{value.namespace_id}/{value.id}"
        case TableVersion():
            return f"n/t/{value.version}"
        case Stream():
            return f"n/t/1/{value.id}"
        case Partition():
            return f"n/t/1/s/{value.id}"
        case Delta():
            return f"n/t/1/s/p/{value.position or 1}"
        case _:
            return "mangrove/x"


def _fields(value: Object, before: dict[str, Any] | None = None) -> dict[str, Any]:
    match value:
        case TableVersion():
            return encode_table_version(TableVersionLocator("n", "t", value.version), value, before)
        case Stream():
            return encode_stream(StreamLocator("n", "t", 1, value.id), value, before, None)
        case Partition():
            return encode_partition(PartitionLocator("n", "t", 1, "s", value.id), value, before, None)
        case Delta():
            return encode_delta(DeltaLocator("n", "t", 1, "s", "p", value.position or 1), value, before, None)
        case _:
            return encode_named_object(value, before)


def _again(value: Object, fields: dict[str, Any] | None = None) -> Object:
    data = encode_map(fields or _fields(value))
    return decode_body(kind_of(value), data, _folder(value), "a body").value


def _expected(value: Object) -> Object:
    return Delta(**{**_parts(value), "position": value.position or 1}) if isinstance(value, Delta) else value


def _parts(value: Delta) -> dict[str, Any]:
    return {name: getattr(value, name) for name in Delta.__dataclass_fields__}


@given(strategies.objects())
def test_every_object_round_trips(value: Object) -> None:
    assert _again(value) == _expected(value)


@given(strategies.objects(), st.dictionaries(st.sampled_from(["new", "newer"]), st.integers(0, 9), min_size=1))
def test_fields_that_are_not_known_survive_a_change(value: Object, unknown: dict[str, Any]) -> None:
    before = _fields(value) | unknown
    after = decode_map(encode_map(_fields(value, before)), "a body")
    assert unknown.items() <= after.items()
    assert _again(value, after) == _expected(value)


def test_a_namespaces_body_has_golden_bytes() -> None:
    value = NamespaceEntry("some-id", "sales", {"owner": "qa"})
    assert encode_map(_fields(value)) == (
        b"\x84\xb0namespaceLocator\x81\xa9namespace\xa5sales\xaaproperties\x81\xa5owner\xa2qa"
        b"\xacancestor_ids\x90\xa2id\xa7some-id"
    )


def test_the_body_of_a_delta_contains_its_position_in_place_of_names() -> None:
    fields = encode_delta(DeltaLocator("n", "t", 3, "s", "p", 42), Delta(DeltaType.UPSERT), None, None)
    assert fields["deltaLocator"] == {
        "partitionLocator": {
            "streamLocator": {
                "tableVersionLocator": {
                    "tableLocator": {"namespaceLocator": {"namespace": "42"}, "tableName": "42"},
                    "tableVersion": "3",
                },
                "streamId": "s",
                "format": "deltacat",
            },
            "partitionValues": None,
            "partitionId": "p",
        },
        "streamPosition": 42,
    }
    assert fields["ancestor_ids"] == ["n", "t", "3", "s", "p"]
    assert fields["type"] == "upsert"


def test_keys_are_read_from_the_merge_keys_of_deltacat() -> None:
    schema = Schema((Column(5, "id", Int64(), nullable=False), Column(7, "x", Int64())))
    value = TableVersion(1, schema, keys=(5,))
    fields = _fields(value)
    del fields["mangrove"]
    found = _again(value, fields)
    assert isinstance(found, TableVersion)
    assert (found.schema, found.keys) == (schema, (5,))


def test_a_partition_scheme_is_stored_in_the_deltacat_form_and_round_trips() -> None:
    schema = Schema((Column(1, "ts", Timestamp()),))
    scheme = PartitionScheme((PartitionField(1, Days(), "day"),), "by-day")
    fields = _fields(TableVersion(1, schema, partition_scheme=scheme))
    assert fields["partitionScheme"]["keys"][0]["key"] == ["ts"]
    assert fields["partitionScheme"]["keys"][0]["transform"] == {"name": "day"}
    found = _again(TableVersion(1, schema, partition_scheme=scheme), fields)
    assert isinstance(found, TableVersion)
    assert found.partition_scheme == scheme


def test_a_transform_with_other_semantics_in_deltacat_is_not_mapped() -> None:
    schema = Schema((Column(1, "ts", Timestamp()),))
    scheme = PartitionScheme((PartitionField(1, Days(), "day"),), "by-day")
    fields = _fields(TableVersion(1, schema, partition_scheme=scheme))
    del fields["mangrove"]
    found = decode_body(Kind.TABLE_VERSION, encode_map(fields), "n/t/1", "a body").value
    assert isinstance(found, TableVersion)
    assert found.partition_scheme == PartitionScheme(id="by-day")


def test_fields_changed_by_deltacat_override_the_mangrove_fields() -> None:
    value = Partition("p", ("2026-11-15", 7), "by-day")
    fields = _fields(value)
    fields["partitionLocator"]["partitionValues"] = ["2026-11-16", 8]
    fields["state"] = "deprecated"
    found = _again(value, fields)
    assert isinstance(found, Partition)
    assert found.values == ("2026-11-16", 8)
    assert found.state is StreamState.DEPRECATED


def test_properties_that_are_not_strings_keep_their_type_after_a_change() -> None:
    before = _fields(TableEntry("t", "n", "orders")) | {
        "properties": {"records": 4_000_000, "readers": ["a"], "x": "1"}
    }
    value = decode_body(Kind.TABLE, encode_map(before), "n/t", "a body").value
    assert isinstance(value, TableEntry)
    assert value.properties == {"records": "4000000", "readers": '["a"]', "x": "1"}
    renamed = TableEntry("t", "n", "purchases", properties=dict(value.properties) | {"x": "2"})
    assert _fields(renamed, before)["properties"] == {"records": 4_000_000, "readers": ["a"], "x": "2"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\x93\x01\x02\x03",
        b"\xc1",
        b"\xdf\xff\xff\xff\xff",
        msgpack.packb({"namespaceLocator": {}}),
        msgpack.packb({"namespaceLocator": {"namespace": 5}}),
        msgpack.packb({"namespaceLocator": {"namespace": "a b"}}),
        msgpack.packb({"namespaceLocator": {"namespace": "a"}, "mangrove": "{"}),
        msgpack.packb({"namespaceLocator": {"namespace": "a"}, "mangrove": "[]"}),
    ],
)
def test_a_damaged_body_is_refused_with_its_path(data: bytes) -> None:
    with pytest.raises(FormatError, match="where/it/lies"):
        decode_body(Kind.NAMESPACE, data, "n", "where/it/lies")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.TABLE_VERSION, Kind.STREAM, Kind.PARTITION, Kind.DELTA, Kind.VIEW):
        with pytest.raises(FormatError):
            decode_body(kind, data, "n/t/1", "a body")
