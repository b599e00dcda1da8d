"""Numbers of schemas, specs and orders are the server's to give: what a client says of them decides nothing."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.iceberg.iceberg_client import Client

import mangrove
from mangrove.errors import InvalidInputError

CLIENT_SCHEMA_IDS = st.none() | st.integers(-3, 5) | st.sampled_from([77, 2**31 - 1, 2**31, 10**20])


def client_of_new_table(**options: Any) -> Client:
    lake = mangrove.create(f"memory://numbers-{uuid.uuid4()}")
    lake.create_namespace("shop")
    lake.create_table("shop.t", "id bigint not null, part string", **options)
    return Client(lake, "shop.t")


def columns_added(client: Client, said: int | None, *names: str, current: int = -1) -> dict[str, Any]:
    metadata = client.shown.metadata
    schema = metadata.schema().model_dump(mode="json", by_alias=True, exclude={"schema_id"})
    following = metadata.last_column_id + 1
    more = [{"id": following + n, "name": name, "type": "int", "required": False} for n, name in enumerate(names)]
    told = {} if said is None else {"schema-id": said}
    return {
        "requirements": [],
        "updates": [
            {"action": "add-schema", "schema": {**schema, **told, "fields": [*schema["fields"], *more]}},
            {"action": "set-current-schema", "schema-id": current},
        ],
    }


def ordered(said: int | None, direction: str = "asc", current: int = -1) -> dict[str, Any]:
    field = {"source-id": 1, "transform": "identity", "direction": direction, "null-order": "nulls-first"}
    told = {} if said is None else {"order-id": said}
    return {
        "requirements": [],
        "updates": [
            {"action": "add-sort-order", "sort-order": {**told, "fields": [field]}},
            {"action": "set-default-sort-order", "sort-order-id": current},
        ],
    }


def divided(said: int | None, fields: list[dict[str, Any]]) -> dict[str, Any]:
    told = {} if said is None else {"spec-id": said}
    return {
        "requirements": [],
        "updates": [
            {"action": "add-spec", "spec": {**told, "fields": fields}},
            {"action": "set-default-spec", "spec-id": -1},
        ],
    }


def names_of(client: Client) -> Any:
    return client.lake.table("shop.t").to_arrow().column_names


@given(st.lists(CLIENT_SCHEMA_IDS, min_size=1, max_size=3))
def test_columns_are_added_with_any_schema_id_of_the_client(said: list[int | None]) -> None:
    client = client_of_new_table()
    for number, one in enumerate(said):
        client.send(columns_added(client, one, f"c{number}"))
    assert names_of(client) == ["id", "part", *(f"c{number}" for number in range(len(said)))]
    assert client.shown.metadata.current_schema_id == len(said)


@given(CLIENT_SCHEMA_IDS)
def test_an_existing_schema_is_not_added_again(said: int | None) -> None:
    client = client_of_new_table()
    before = client.lake.version
    client.send(columns_added(client, said))
    assert client.lake.version == before


def test_schema_id_minus_one_refers_to_the_last_added_schema() -> None:
    client = client_of_new_table()
    first, last = columns_added(client, 9, "a"), columns_added(client, 3, "b")
    client.send({"requirements": [], "updates": [*first["updates"], *last["updates"]]})
    assert names_of(client) == ["id", "part", "b"]


def test_a_schema_id_of_the_client_is_used_unless_it_exists() -> None:
    client = client_of_new_table()
    client.send(columns_added(client, 9, "a", current=9))
    assert names_of(client) == ["id", "part", "a"]
    before = client.lake.version
    client.send(columns_added(client, 1, "b", current=1))
    assert client.lake.version == before


@given(st.lists(st.tuples(CLIENT_SCHEMA_IDS, st.sampled_from(["asc", "desc"])), min_size=1, max_size=3))
def test_the_last_added_sort_order_is_current_with_any_id(said: list[tuple[int | None, str]]) -> None:
    client = client_of_new_table()
    for number, direction in said:
        client.send(ordered(number, direction))
        assert [one.direction.value for one in client.shown.metadata.sort_order().fields] == [direction]
    assert len(client.shown.metadata.sort_orders) == 1 + len({direction for _, direction in said})


@given(CLIENT_SCHEMA_IDS)
def test_an_equal_partition_spec_changes_nothing_and_another_one_is_added(said: int | None) -> None:
    client = client_of_new_table(partition_by=["part"])
    before = client.lake.version
    field = {"source-id": 2, "field-id": 1000, "name": "part", "transform": "identity"}
    client.send(divided(said, [field]))
    assert client.lake.version == before
    client.send(divided(said, [{**field, "field-id": 1001, "transform": "truncate[2]", "name": "p"}]))
    assert [str(one.transform) for one in client.shown.metadata.spec().fields] == ["truncate[2]"]
    assert [one.spec_id for one in client.shown.metadata.partition_specs] == [0, 1, 2]


def test_schema_id_minus_one_without_an_added_schema_is_rejected() -> None:
    client = client_of_new_table()
    with pytest.raises(InvalidInputError, match="are inconsistent"):
        client.send({"requirements": [], "updates": [{"action": "set-current-schema", "schema-id": -1}]})
