"""Whatever is asked, the answer is one of the protocol's, never an accident; and reading changes no version."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.rest.conftest import counted, filled, request_info

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.storage.counting import CountingStore

NAMES = st.sampled_from(["sales", "orders", "daily", "outside", "a.b", "namespaces", "tables", "views"]) | st.text(
    max_size=30
)
PREFIXES = st.sampled_from(["", "version-3/", "version-99/", "version-03/", "version-/", "v1/"])
ENDINGS = st.sampled_from(["", "/tables", "/views", "/tables/{}", "/views/{}", "/properties", "/tables/{}/credentials"])
QUERIES = st.dictionaries(
    st.sampled_from(["pageToken", "pageSize", "parent", "snapshots", "warehouse"]), st.text(max_size=20), max_size=2
)


@pytest.fixture(scope="module")
def any_lake(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    return filled(tmp_path_factory.mktemp("any") / "lake")


@pytest.fixture(scope="module")
def any_client(any_lake: Lakehouse) -> Iterator[TestClient]:
    with request_info(counted(any_lake)) as found:
        yield found


@given(
    method=st.sampled_from(["GET", "HEAD"]),
    prefix=PREFIXES,
    namespace=NAMES,
    ending=ENDINGS,
    name=NAMES,
    query=QUERIES,
)
def test_every_request_gets_an_answer_of_the_protocol(
    any_client: TestClient,
    any_lake: Lakehouse,
    method: str,
    prefix: str,
    namespace: str,
    ending: str,
    name: str,
    query: dict[str, str],
) -> None:
    path = f"v1/{prefix}namespaces/{quoted(namespace)}{ending.format(quoted(name))}"
    answer = any_client.request(method, path, params=encodable(query))
    # An empty name leaves a slash at the end, without which it is asked again.
    assert answer.status_code in (200, 204, 307, 400, 404, 405, 406), answer.text
    if answer.status_code >= 400 and method == "GET":
        error = answer.json()["error"]
        assert error["code"] == answer.status_code
        assert error["type"].endswith("Exception")
        assert error["message"]
    assert any_lake.version == 7


def quoted(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe="")


def encodable(query: dict[str, str]) -> dict[str, str]:
    return {name: value.encode("utf-8", "replace").decode() for name, value in query.items()}


def test_concurrent_loads_of_a_table_return_the_same_response(lake: Lakehouse) -> None:
    with request_info(counted(lake)) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.get("v1/namespaces/sales/tables/orders").json(), range(16)))
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("is_other_changed", [False, True])
def test_a_known_table_costs_one_request_besides_what_the_catalog_takes(
    tmp_path: Path, *, is_other_changed: bool
) -> None:
    written = filled(tmp_path / "lake")
    lake = counted(written)
    store = lake.effects.store
    assert isinstance(store, CountingStore)
    with request_info(lake) as client:
        first = client.get("v1/namespaces/sales/tables/orders")
        if is_other_changed:
            written.create_namespace("other")
        client.head("v1/namespaces/sales/tables/orders")
        before = store.requests
        client.head("v1/namespaces/sales/tables/orders")
        between = store.requests
        known = client.get("v1/namespaces/sales/tables/orders", headers={"If-None-Match": first.headers["etag"]})
        after = store.requests
    assert known.status_code == 304
    assert (after - between).puts == (after - between).lists == 0
    allowed = 4 if is_other_changed else 1
    assert (after - between).total <= (between - before).total + allowed


def test_metadata_that_a_vacuum_deleted_is_written_again(tmp_path: Path) -> None:
    written = filled(tmp_path / "lake")
    with request_info(counted(written)) as client:
        first = client.get("v1/namespaces/sales/tables/orders").json()
        location = Path(first["metadata-location"].removeprefix("file://"))
        location.unlink()
        assert client.get("v1/namespaces/sales/tables/orders").json() == first
        assert location.exists()
