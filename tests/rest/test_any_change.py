"""Whatever a client sends to be committed is committed or refused, and never an accident."""

import copy
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.iceberg.iceberg_client import Client
from tests.rest.conftest import TOKEN, request_info

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

# PyIceberg warns of a snapshot that does not say what was done, and takes it for an overwrite.
pytestmark = pytest.mark.filterwarnings("ignore:Encountered invalid snapshot summary")
ANY = st.integers(0, 2**20)
"""A choice among so many as there are, which files and versions before may have made more or fewer."""
DONE = {200, 204}
REFUSED = {400, 404, 406, 409, 422}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=3,
)


@pytest.fixture(scope="module")
def changed_lake() -> Lakehouse:
    lake = mangrove.create(f"memory://any-change-{uuid.uuid4()}")
    lake.create_namespace("shop")
    lake.create_table("shop.t", "id bigint not null, part string, s struct<x: int>", partition_by=["part"])
    return lake


@pytest.fixture(scope="module")
def changing(changed_lake: Lakehouse) -> Iterator[TestClient]:
    with request_info(changed_lake, Access("127.0.0.1", TOKEN, is_writable=True)) as found:
        found.headers["Authorization"] = f"Bearer {TOKEN}"
        yield found


def places_in(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to all that a document holds."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield (*above, key)
        yield from places_in(value, (*above, key))


def spoiled(data: st.DataObject, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document in which something is gone or is something else."""
    found = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 2))):
        places = [*places_in(found), ("requirements",)]
        *way, last = places[data.draw(ANY) % len(places)]
        holder: Any = found
        for step in way:
            holder = holder[step]
        is_gone, other = data.draw(st.booleans(), label="is gone"), data.draw(JSON)
        if is_gone and (last in holder or isinstance(holder, list)):
            del holder[last]
        else:
            holder[last] = other
    return found


def check_response(lake: Lakehouse, before: int, answer: Any) -> None:
    """Check that something was done or refused; what was done is taken back, so that the next begins as this did."""
    assert answer.status_code in DONE | REFUSED, answer.text
    lake.table("shop.t").to_arrow()
    if answer.status_code in REFUSED:
        assert lake.version == before
    elif lake.version != before:
        lake.rollback(to=before)


def schema_document(client: Client) -> dict[str, Any]:
    schema: dict[str, Any] = client.shown.metadata.schema().model_dump(mode="json", by_alias=True)
    following = client.shown.metadata.last_column_id + 1
    more = {"id": following, "name": f"c{following}", "type": "decimal(9, 2)", "required": False}
    return {**schema, "schema-id": schema["schema-id"] + 1, "fields": [*schema["fields"], more]}


@settings(max_examples=60)
@given(st.data())
def test_any_commit_succeeds_or_is_rejected(changed_lake: Lakehouse, changing: TestClient, data: st.DataObject) -> None:
    client = Client(changed_lake, "shop.t")
    request = client.request([client.rows([{"id": 1, "part": "a"}], ["a"])])
    if data.draw(st.booleans(), label="with columns"):
        request["updates"] += [
            {"action": "add-schema", "schema": schema_document(client), "last-column-id": 9},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "set-properties", "updates": {"a": "b"}},
        ]
    before = changed_lake.version
    check_response(changed_lake, before, changing.post("/v1/namespaces/shop/tables/t", json=spoiled(data, request)))


@settings(max_examples=60)
@given(st.data())
def test_any_table_creation_succeeds_or_is_rejected(
    changed_lake: Lakehouse, changing: TestClient, data: st.DataObject
) -> None:
    client = Client(changed_lake, "shop.t")
    body = {
        "name": f"n{uuid.uuid4().hex}",
        "schema": schema_document(client),
        "partition-spec": {"spec-id": 0, "fields": [{"source-id": 2, "transform": "truncate[3]", "name": "p"}]},
        "write-order": {
            "order-id": 1,
            "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
        },
        "stage-create": data.draw(st.booleans()),
        "properties": {"owner": "ana"},
    }
    before = changed_lake.version
    check_response(changed_lake, before, changing.post("/v1/namespaces/shop/tables", json=spoiled(data, body)))


@settings(max_examples=80)
@given(st.data())
def test_any_files_are_taken_or_refused(changed_lake: Lakehouse, changing: TestClient, data: st.DataObject) -> None:
    client = Client(changed_lake, "shop.t")
    store = changed_lake.effects.store
    known = {entry.path for entry in store.list(f"data/{changed_lake.table('shop.t').id}/")}
    rows = client.rows([{"id": number, "part": "a"} for number in range(3)], ["a"])
    deleted_rows = client.numbers({rows.address: [1]}, ["a"])
    request = client.request([rows, deleted_rows, client.keys([{"id": 1}], ["id"], ["a"])])
    written = sorted(
        {entry.path for entry in store.list(f"data/{changed_lake.table('shop.t').id}/")} - known,
        key=lambda path: (path.endswith(".avro"), len(store.read(path))),
    )
    path = written[data.draw(ANY) % len(written)]
    content = bytearray(store.read(path))
    # What is wrong inside of a page of rows is noticed by who reads them: here only what says where they are.
    for _ in range(data.draw(st.integers(1, 4)) if path.endswith(".avro") else 0):
        content[data.draw(ANY) % len(content)] = data.draw(st.integers(0, 255))
    size = data.draw(ANY) % len(content) if data.draw(st.booleans(), label="cut") else len(content)
    store.put(path, bytes(content[:size]))
    before = changed_lake.version
    check_response(changed_lake, before, changing.post("/v1/namespaces/shop/tables/t", json=request))
