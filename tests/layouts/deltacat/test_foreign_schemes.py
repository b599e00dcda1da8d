"""Schemes and names that only DeltaCAT has are read, and stay as they are when we write the object again."""

from typing import Any

import pytest

from mangrove.layouts.deltacat.fields import parse_table_version
from mangrove.layouts.deltacat.msgpack_maps import encode_map
from mangrove.layouts.deltacat.object_codec import decode_body, list_unmapped_fields
from mangrove.layouts.deltacat.table_codec import encode_table_version
from mangrove.model.locators import Kind, TableVersionLocator
from mangrove.model.objects import TableVersion
from mangrove.model.partitioning import Bucket, Identity, PartitionField, PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Int64, Timestamp

SCHEMA = Schema((Column(1, "id", Int64()), Column(2, "ts", Timestamp())))
BETA = parse_table_version("beta.1")
LOCATOR = TableVersionLocator("n", "t", BETA)


def _transform(name: str, **parameters: Any) -> dict[str, Any]:
    return {"name": name, "parameters": parameters} if parameters else {"name": name}


def _scheme(*keys: tuple[list[str], dict[str, Any] | None]) -> dict[str, Any]:
    fields = [{"key": key, "name": None, "fieldId": None, "transform": transform} for key, transform in keys]
    return {"keys": fields, "name": "theirs", "id": "theirs", "nativeObject": None}


def _body(partition: dict[str, Any], sort: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a table version as DeltaCAT writes it: nothing in it is ours."""
    fields = encode_table_version(LOCATOR, TableVersion(BETA, SCHEMA), None)
    fields.pop("mangrove", None)
    ordered = sort or fields["sortScheme"]
    return fields | {
        "partitionScheme": partition,
        "partitionSchemes": [partition],
        "sortScheme": ordered,
        "sortSchemes": [ordered],
    }


def _read(fields: dict[str, Any]) -> TableVersion:
    value = decode_body(Kind.TABLE_VERSION, encode_map(fields), "n/t/beta.1", "here").value
    assert isinstance(value, TableVersion)
    return value


@pytest.mark.parametrize(
    "keys",
    [
        [(["ts"], _transform("day"))],
        [(["ts"], _transform("month"))],
        [(["id"], _transform("bucket", numBuckets=8, bucketingStrategy="default"))],
        [(["id"], _transform("truncate", width=8, truncateStrategy="default"))],
        [(["id"], None), (["ts"], _transform("hour"))],
        [(["id", "ts"], _transform("bucket", numBuckets=8, bucketingStrategy="iceberg"))],
        [(["id"], _transform("void"))],
    ],
)
def test_a_partition_scheme_known_only_to_deltacat_is_preserved_and_prunes_nothing(keys: Any) -> None:
    theirs = _scheme(*keys)
    value = _read(_body(theirs))
    assert value.version == BETA
    assert value.partition_scheme == PartitionScheme((), "theirs", "theirs")
    again = encode_table_version(LOCATOR, value, _body(theirs))
    assert again["partitionScheme"] == theirs
    assert again["partitionSchemes"] == [theirs]
    assert again["tableVersionLocator"]["tableVersion"] == "beta.1"
    assert encode_table_version(LOCATOR, _read(again), again)["partitionScheme"] == theirs


@pytest.mark.parametrize(
    ("transform", "ours"),
    [
        (None, Identity()),
        (_transform("identity"), Identity()),
        (_transform("bucket", numBuckets=8, bucketingStrategy="iceberg"), Bucket(8)),
    ],
)
def test_a_partition_scheme_known_to_both_is_mapped(transform: Any, ours: Any) -> None:
    value = _read(_body(_scheme((["id"], transform))))
    assert value.partition_scheme == PartitionScheme((PartitionField(1, ours, "id"),), "theirs", "theirs")


@pytest.mark.parametrize(
    "key",
    [
        [["ts"], "ascending", "at_end", {"name": "day"}, None],
        [["id", "ts"], "ascending", "at_end", None, None],
        [["id"], "sideways", "at_end", None, None],
    ],
)
def test_a_sort_scheme_known_only_to_deltacat_is_preserved_and_ignored(key: list[Any]) -> None:
    theirs = {"keys": [key], "name": "theirs", "id": "sorted", "nativeObject": None}
    body = _body(_scheme((["id"], None)), theirs)
    value = _read(body)
    assert value.sort_scheme.fields == ()
    assert encode_table_version(LOCATOR, value, body)["sortSchemes"] == [theirs]


def test_a_changed_partition_scheme_replaces_the_one_of_deltacat() -> None:
    theirs = _scheme((["ts"], _transform("day")))
    value = _read(_body(theirs))
    ours = PartitionScheme((PartitionField(1, Identity(), "id"),), "ours")
    changed = TableVersion(BETA, SCHEMA, partition_scheme=ours, earlier_partition_schemes=(value.partition_scheme,))
    again = encode_table_version(LOCATOR, changed, _body(theirs))
    assert again["partitionScheme"]["keys"][0]["key"] == ["id"]
    assert again["partitionSchemes"][0] == theirs


def test_unmapped_fields_of_a_body_are_listed() -> None:
    theirs = _scheme((["ts"], _transform("day")))
    fields = _body(theirs) | {"nativeObject": b"x", "properties": {"size": 7}}
    found = list(list_unmapped_fields(decode_body(Kind.TABLE_VERSION, encode_map(fields), "n/t/beta.1", "here")))
    assert found == [
        "the field nativeObject",
        "the type of properties that are not strings",
        "DeltaCAT's partition or sort keys in partitionSchemes",
    ]
    ours = _body(_scheme((["id"], None)))
    assert list(list_unmapped_fields(decode_body(Kind.TABLE_VERSION, encode_map(ours), "n/t/beta.1", "here"))) == []
