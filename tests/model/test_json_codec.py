"""Model values as JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError, InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.json_codec import Json, from_json, to_json, value_from_json, value_to_json
from mangrove.model.manifests import Manifest
from mangrove.model.objects import Delta, NamespaceEntry, Object, Stream
from mangrove.model.partitioning import PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.settings import LakehouseSettings
from mangrove.model.values import Value
from mangrove.testing.strategies import manifests, objects, partition_schemes, schemas, values


@given(objects())
def test_every_object_round_trips_through_json(value: Object) -> None:
    text = json.dumps(to_json(value), allow_nan=False)
    assert from_json(json.loads(text), type(value)) == value


@given(schemas(), partition_schemes(), manifests())
def test_parts_of_objects_round_trip_through_json(schema: Schema, scheme: PartitionScheme, manifest: Manifest) -> None:
    for value in (schema, scheme, manifest):
        assert from_json(json.loads(json.dumps(to_json(value))), type(value)) == value


@given(values())
def test_a_value_round_trips_with_its_type(value: Value) -> None:
    found = value_from_json(json.loads(json.dumps(value_to_json(value), allow_nan=False)))
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_the_json_of_a_schema_is_stable() -> None:
    schema = parse_schema("id bigint not null, tags array<string>, place struct<a: decimal(4,2)>")
    assert to_json(schema) == {
        "columns": [
            {"id": 1, "name": "id", "type": "bigint", "nullable": False},
            {
                "id": 2,
                "name": "tags",
                "type": {"list": {"id": 4, "name": "element", "type": "string", "nullable": True}},
                "nullable": True,
            },
            {
                "id": 3,
                "name": "place",
                "type": {"struct": [{"id": 5, "name": "a", "type": "decimal(4,2)", "nullable": True}]},
                "nullable": True,
            },
        ],
        "schema_id": 0,
        "last_column_id": 5,
    }


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        ([], NamespaceEntry, r"\$ is \[\]: it is an object"),
        ({"id": "n"}, NamespaceEntry, r"\$ has no field 'name'"),
        ({"id": "n", "name": 1}, NamespaceEntry, r"\$\.name is 1: it is of type str"),
        ({"id": "n", "name": "a", "more": 1}, NamespaceEntry, "unknown field 'more'"),
        ({"id": "n", "name": "a b"}, NamespaceEntry, r"\$: namespace 'a b' holds ' '"),
        ({"id": "s", "state": "lost"}, Stream, r"\$\.state is 'lost': it is one of staged, committed"),
        ({"columns": [{"id": 1, "name": "a", "type": "foo"}]}, Schema, r"\$\.columns\[0\]\.type: .*'foo'"),
        ({"columns": [{"id": 1, "name": "a", "type": "array<int>"}]}, Schema, "nested type is an object"),
        ({"columns": [{"id": 1, "name": "a", "type": {"list": 1}}]}, Schema, r"type\.list is 1"),
        ({"columns": [{"id": True, "name": "a", "type": "int"}]}, Schema, r"id is True"),
        ({"fields": [{"source_id": 1, "transform": "bucket(0)", "name": "a"}]}, PartitionScheme, "transform: bucket"),
        ({"fields": [{"source_id": 1, "transform": "minutes", "name": "a"}]}, PartitionScheme, "truncate"),
        ({"fields": {}}, PartitionScheme, r"\$\.fields is {}: it is a list"),
        ({"maximum_version_age_millis_overrides": {"x": 1}}, LakehouseSettings, "the key 'x'"),
        ({"properties": {"a": 1}}, LakehouseSettings, r"\$\.properties\.a is 1"),
    ],
)
def test_bad_json_is_refused_with_the_path_of_the_field(data: Json, model: type[Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        from_json(data, model)


@pytest.mark.parametrize(
    "data",
    [
        1.5,
        [],
        {"date": 1},
        {"date": "2026-13-01"},
        {"float": "nan"},
        {"decimal": "x"},
        {"timestamp": "2026-01-01T00:00:00+00:00"},
        {"timestamptz": "2026-01-01T00:00:00"},
        {"binary": "zz"},
        {"other": 1},
        {},
    ],
)
def test_an_invalid_json_value_is_rejected(data: Json) -> None:
    with pytest.raises(FormatError):
        value_from_json(data)


def test_an_object_outside_the_model_cannot_be_encoded() -> None:
    with pytest.raises(InvalidInputError):
        to_json(object())


def test_too_deeply_nested_json_is_rejected() -> None:
    data: Json = "int"
    for _ in range(150):
        data = {"list": {"id": 1, "name": "element", "type": data}}
    with pytest.raises(FormatError, match="too deep"):
        from_json({"columns": [{"id": 1, "name": "a", "type": data}]}, Schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "manifest", "entries"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_arbitrary_json_causes_only_format_errors(data: Any) -> None:
    try:
        from_json(data, Delta)
    except FormatError:
        return
