"""Definitions hold every object without loss, keep what they do not know, and refuse damage."""

import dataclasses
import importlib.util
import pickle
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError
from mangrove.expressions.schema_text import parse_schema
from mangrove.layouts.tree.definitions import MANGROVE_DEFINITIONS, decode_definition, encode_definition
from mangrove.layouts.tree.proto import mangrove_tree_pb2 as pb
from mangrove.model.json_codec import to_json
from mangrove.model.locators import DeltaLocator, Kind, NamespaceLocator, TableLocator
from mangrove.model.manifests import ColumnStatistics, DataFile, Manifest
from mangrove.model.objects import (
    Delta,
    DeltaType,
    NamespaceEntry,
    Object,
    Stream,
    TableEntry,
    TableType,
    TableVersion,
    kind_of,
)
from mangrove.model.schema import Schema
from mangrove.model.settings import LakehouseSettings
from mangrove.model.types import Column, Int64
from mangrove.model.values import Value
from mangrove.testing.strategies import objects

ROOT = Path(__file__).parents[3]
PATH = "0101/1000/1100/11001010-table-t1-ns1.binpb"
NEWER = b"\xba\x3e\x03new"
"""A field with a number that nobody uses yet, as a newer program may write it."""

BOUNDS: list[tuple[Value, Value]] = [(1, 1_000_000), ("aaaaaaaa", "zzzzzzzz")] * 5
TYPICAL_DELTA = Delta(
    DeltaType.APPEND,
    Manifest(
        (
            DataFile(
                "data/162511d2-8874-4147-bbbf-72aa6d72b26d/2ad23797-900c-4797-98b9-81a210574bea.parquet",
                size_bytes=12_345_678,
                row_count=1_000_000,
                schema_id=0,
                statistics=tuple(
                    ColumnStatistics(
                        column_id, null_count=0, value_count=1_000_000, size_bytes=400_000, minimum=low, maximum=high
                    )
                    for column_id, (low, high) in enumerate(BOUNDS, start=1)
                ),
            ),
        )
    ),
)


@given(objects())
def test_every_object_round_trips_through_its_definition(value: Object) -> None:
    data = encode_definition(value)
    found, unknown = decode_definition(kind_of(value), data, PATH)
    assert found == value
    assert to_json(found) == to_json(value)
    assert unknown == b""


@given(objects())
def test_encoding_is_deterministic(value: Object) -> None:
    found, _ = decode_definition(kind_of(value), encode_definition(value), PATH)
    assert encode_definition(found) == encode_definition(value)


@given(objects())
def test_unknown_fields_survive_a_read_and_write(value: Object) -> None:
    newer = encode_definition(value) + NEWER
    found, unknown = decode_definition(kind_of(value), newer, PATH)
    assert found == value
    assert unknown
    again = encode_definition(found, unknown)
    assert NEWER in again
    assert decode_definition(kind_of(value), again, PATH) == (value, again)


def test_unknown_fields_of_a_column_stay_with_this_column() -> None:
    message = pb.TableVersion()
    message.ParseFromString(encode_definition(TableVersion(1, parse_schema("a int, b string, c date"))))
    message.schema.columns[1].MergeFromString(NEWER)
    found, unknown = decode_definition(Kind.TABLE_VERSION, message.SerializeToString(), PATH)
    assert isinstance(found, TableVersion)
    assert found.schema is not None
    changed = dataclasses.replace(
        found,
        schema=Schema((Column(9, "first", Int64()), *found.schema.columns[1:]), last_column_id=9),
    )
    message.ParseFromString(encode_definition(changed, unknown))
    assert [NEWER in column.SerializeToString() for column in message.schema.columns] == [False, True, False]
    assert [column.name for column in message.schema.columns] == ["first", "b", "c"]


def test_unknown_fields_are_removed_with_their_object() -> None:
    message = pb.Delta()
    message.ParseFromString(encode_definition(TYPICAL_DELTA))
    message.files[0].MergeFromString(NEWER)
    message.author.MergeFromString(NEWER)
    _, unknown = decode_definition(Kind.DELTA, message.SerializeToString(), PATH)
    assert NEWER not in encode_definition(Delta(DeltaType.APPEND), unknown)
    assert NEWER in encode_definition(TYPICAL_DELTA, unknown)


def test_unused_fields_of_trinitylake_survive() -> None:
    distribution_keys_and_unique_columns = b"\x1a\x01\x02\x32\x01\x03"
    data = encode_definition(TableEntry("t", "n", "orders")) + distribution_keys_and_unique_columns
    found, unknown = decode_definition(Kind.TABLE, data, PATH)
    assert isinstance(found, TableEntry)
    renamed = encode_definition(dataclasses.replace(found, name="sold"), unknown)
    assert b"\x1a\x01\x02" in renamed
    assert b"\x32\x01\x03" in renamed
    assert b"sold" in renamed
    assert b"orders" not in renamed


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        (
            pb.Lakehouse,
            {
                "name": 1,
                "major_version": 2,
                "order": 3,
                "namespace_name_max_size_bytes": 4,
                "table_name_max_size_bytes": 5,
                "file_path_max_size_bytes": 6,
                "node_file_max_size_bytes": 7,
                "properties": 8,
                "maximum_version_age_millis": 9,
                "minimum_versions_to_keep": 10,
                "maximum_version_age_millis_overrides": 11,
                "exported_snapshots": 12,
            },
        ),
        (pb.Namespace, {"name": 1, "properties": 2}),
        (
            pb.Table,
            {
                "name": 1,
                "schema": 2,
                "primary_keys": 4,
                "table_type": 8,
                "table_format": 9,
                "format_properties": 10,
                "properties": 11,
            },
        ),
        (
            pb.Column,
            {
                "id": 1,
                "name": 2,
                "type": 3,
                "nullable": 4,
                "properties": 5,
                "struct_fields": 6,
                "map_key": 7,
                "map_value": 8,
                "list_element": 9,
            },
        ),
    ],
)
def test_fields_have_the_numbers_of_trinitylake_and_extensions_start_at_100(
    message: type[pb.Lakehouse | pb.Namespace | pb.Table | pb.Column], numbers: dict[str, int]
) -> None:
    found = {field.name: field.number for field in message.DESCRIPTOR.fields}
    assert {name: number for name, number in found.items() if number < 100} == numbers


def test_data_types_have_the_numbers_of_trinitylake() -> None:
    words = (
        "BOOLEAN INT2 INT4 INT8 DECIMAL FLOAT4 FLOAT8 CHAR VARCHAR DATE TIME TIMETZ TIMESTAMP TIMESTAMPTZ FIXED "
        "BINARY STRUCT MAP LIST"
    )
    own = {"TIMESTAMP_NS": 100, "TIMESTAMPTZ_NS": 101}
    assert dict(pb.DataType.items()) == {word: number for number, word in enumerate(words.split())} | own


def test_definitions_written_by_trinitylakes_java_program_are_read() -> None:
    settings, _ = decode_definition(Kind.LAKEHOUSE, bytes.fromhex("1880012008280830c801388080 40"), PATH)
    assert settings == LakehouseSettings(namespace_name_max_size_bytes=8, table_name_max_size_bytes=8)
    namespace = NamespaceLocator("default")
    assert decode_definition(Kind.NAMESPACE, bytes.fromhex("12060a016b120176"), PATH, namespace) == (
        NamespaceEntry("default", "default", {"k": "v"}),
        b"",
    )
    assert decode_definition(Kind.NAMESPACE, b"", PATH, NamespaceLocator("ns2"))[0] == NamespaceEntry("ns2", "ns2")
    table = TableLocator("default", "table")
    expected = TableEntry("table", "default", "table", TableType.MANAGED, "ICEBERG")
    assert decode_definition(Kind.TABLE, bytes.fromhex("4a0749434542455247"), PATH, table) == (expected, b"")
    empty, _ = decode_definition(Kind.TABLE, b"", PATH, TableLocator("default", "a"))
    assert isinstance(empty, TableEntry)
    assert (empty.name, empty.table_format) == ("a", "")


@pytest.mark.parametrize(
    ("kind", "message", "rule"),
    [
        (Kind.LAKEHOUSE, pb.Lakehouse(major_version=1, order=1), "unsupported major_version 1"),
        (Kind.LAKEHOUSE, pb.Lakehouse(order=2), "invalid order 2"),
        (Kind.LAKEHOUSE, pb.Lakehouse(order=100_000), "no room for a write buffer"),
        (Kind.NAMESPACE, pb.Namespace(), "namespace"),
        (Kind.NAMESPACE, pb.Namespace(id="n", name="a b"), "holds ' '"),
        (Kind.TABLE, pb.Table(name="a"), "namespace id"),
        (Kind.TABLE, pb.Table(name="a", namespace_id="n", table_type="LOST"), "unknown table_type 'LOST'"),
        (Kind.VIEW, pb.View(name="a"), "has no SQL"),
        (
            Kind.VIEW,
            pb.View(name="a", representation=pb.ViewRepresentation(type="plan", sql="x")),
            "expected sql",
        ),
        (Kind.SHARED_TRANSACTION, pb.SharedTransaction(name="a"), "unknown state 0"),
        (Kind.TABLE_VERSION, pb.TableVersion(version=1), "partition scheme id"),
        (Kind.STREAM, pb.Stream(id="s", format="f", partition_scheme_id="0"), "unknown state 0"),
        (Kind.PARTITION, pb.Partition(id="p", scheme_id="0", values=[pb.Value(date=10**9)]), "not a valid date"),
        (Kind.PARTITION, pb.Partition(id="p", scheme_id="0", values=[pb.Value(decimal="x")]), "not a valid decimal"),
        (
            Kind.PARTITION,
            pb.Partition(id="p", scheme_id="0", values=[pb.Value(time=86_400_000_000)]),
            "not a valid time",
        ),
        (Kind.DELTA, pb.Delta(), "unknown delta type 0"),
        (Kind.DELTA, pb.Delta(type=pb.DELTA_TYPE_APPEND, files=[pb.DataFile()]), "location"),
        (
            Kind.TABLE,
            pb.Table(name="a", namespace_id="n", schema=pb.Schema(columns=[pb.Column(id=1, name="l", type=pb.LIST)])),
            "has no list_element",
        ),
        (Kind.TABLE, pb.Table(name="a", namespace_id="n", schema=pb.Schema()), "at least one column"),
    ],
)
def test_a_definition_that_breaks_a_rule_is_refused_with_its_path(kind: Kind, message: pb.Lakehouse, rule: str) -> None:
    with pytest.raises(FormatError, match=f"{PATH}.*{rule}"):
        decode_definition(kind, message.SerializeToString(), PATH)


@given(st.sampled_from(Kind), st.binary(max_size=60))
def test_arbitrary_bytes_cause_only_format_errors(kind: Kind, data: bytes) -> None:
    refusal = _refusal(kind, data)
    assert refusal is None or PATH in refusal


@given(objects(), st.randoms(use_true_random=False))
def test_damaged_definitions_cause_only_format_errors(value: Object, chance: random.Random) -> None:
    data = bytearray(encode_definition(value))
    if not data:
        return
    damages: list[Callable[[], bytes]] = [
        lambda: bytes(data[: chance.randrange(len(data))]),
        lambda: _with_a_flipped_bit(data, chance),
        lambda: bytes(data) + chance.randbytes(4),
        lambda: bytes(data) * 2,
    ]
    for damage in damages:
        refusal = _refusal(kind_of(value), damage())
        assert refusal is None or PATH in refusal


@given(st.lists(objects(), max_size=12).map(lambda found: [one for one in found if isinstance(one, Delta)]))
def test_deltas_that_are_read_together_equal_those_that_are_read_alone(others: list[Delta]) -> None:
    deltas = [TYPICAL_DELTA, *others, TYPICAL_DELTA]
    requested = [
        (DeltaLocator("n", "t", 1, "s", "p", place), encode_definition(delta), PATH)
        for place, delta in enumerate(deltas, start=1)
    ]
    together = MANGROVE_DEFINITIONS.read_all(requested)
    assert together == [MANGROVE_DEFINITIONS.read(*one) for one in requested]
    assert [read.value for read in together] == [
        dataclasses.replace(delta, position=place) for place, delta in enumerate(deltas, start=1)
    ]


def test_of_deltas_that_are_read_together_the_damaged_one_is_named() -> None:
    sound = encode_definition(TYPICAL_DELTA)
    damaged = pb.Delta(type=pb.DELTA_TYPE_APPEND, files=[pb.DataFile(location="data/../a")]).SerializeToString()
    first, second = DeltaLocator("n", "t", 1, "s", "p", 1), DeltaLocator("n", "t", 1, "s", "p", 2)
    with pytest.raises(FormatError, match=rf"{PATH}.*'\.\.' segment"):
        MANGROVE_DEFINITIONS.read_all([(first, sound, "another"), (second, damaged, PATH)])


def test_statistics_are_decoded_and_validated_when_they_are_used() -> None:
    message = pb.Delta(
        type=pb.DELTA_TYPE_APPEND,
        files=[pb.DataFile(location="data/a", statistics=[pb.ColumnStatistics(column_id=n) for n in (2, 1)])],
    )
    found, _ = decode_definition(Kind.DELTA, message.SerializeToString(), PATH)
    assert isinstance(found, Delta)
    (file,) = found.manifest.entries
    assert file.row_count == 0
    with pytest.raises(FormatError, match=r"data/a.*column 2 before those of 1"):
        file.statistics_of(1)


def test_decoded_statistics_are_those_of_the_file_and_survive_pickling() -> None:
    found, _ = decode_definition(Kind.DELTA, encode_definition(TYPICAL_DELTA), PATH)
    assert isinstance(found, Delta)
    (file,), (written,) = found.manifest.entries, TYPICAL_DELTA.manifest.entries
    assert hash(file) == hash(written)
    assert repr(file) == repr(written)
    assert pickle.loads(pickle.dumps(file)) == written
    assert file.statistics[1:3] == written.statistics[1:3]


def test_the_definition_of_a_typical_delta_is_small() -> None:
    assert len(encode_definition(TYPICAL_DELTA)) < 400


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    _generator().generate(tmp_path)
    for name in ("mangrove_tree_pb2.py", "mangrove_tree_pb2.pyi"):
        committed = ROOT / "src/mangrove/layouts/tree/proto" / name
        assert (tmp_path / name).read_text("utf-8") == committed.read_text("utf-8"), "run: python proto/generate.py"


def test_states_are_stored_as_numbers_that_never_change() -> None:
    assert encode_definition(Stream("s")) == bytes.fromhex("0a0173 120864656c7461636174 1a0130 2002")


def _refusal(kind: Kind, data: bytes) -> str | None:
    try:
        found, _ = decode_definition(kind, data, PATH)
    except FormatError as error:
        return str(error)
    with suppress(FormatError):
        repr(found)  # decodes statistics, whose errors name the data file
    return None


def _with_a_flipped_bit(data: bytearray, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    return bytes(data[:place]) + bytes([data[place] ^ 1 << chance.randrange(8)]) + bytes(data[place + 1 :])


def _generator() -> ModuleType:
    specification = importlib.util.spec_from_file_location("generate", ROOT / "proto/generate.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
