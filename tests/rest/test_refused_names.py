"""Names that Mangrove does not have are refused with the standard error types and what is allowed."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.rest.conftest import TOKEN

import mangrove
from mangrove.server.access import Access
from mangrove.server.app import build_app

COLUMNS: dict[str, Any] = {"type": "struct", "fields": [{"id": 1, "name": "a b", "type": "long", "required": False}]}
SPACE = "a name holds no space"
LEVELS = "namespaces have one level"


@pytest.fixture(params=["tree", "deltacat"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> TestClient:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("sales")
    app = build_app(lake, Access("127.0.0.1", TOKEN, is_writable=True))
    return TestClient(app, base_url="http://127.0.0.1/iceberg", headers={"Authorization": f"Bearer {TOKEN}"})


def test_names_with_spaces_and_levels_are_refused(client: TestClient) -> None:
    table = "v1/namespaces/sales/tables"
    ends = {"namespace": ["sales"], "name": "ok"}, {"namespace": ["sales"], "name": "o k"}
    assert client.post(table, json={"name": "ok", "schema": COLUMNS}).status_code == 200
    refused: list[tuple[str, Any, str]] = [
        ("v1/namespaces", {"namespace": ["a b"]}, SPACE),
        ("v1/namespaces", {"namespace": ["a", "b"]}, LEVELS),
        (table, {"name": "a b", "schema": COLUMNS}, SPACE),
        ("v1/tables/rename", {"source": ends[0], "destination": ends[1]}, SPACE),
    ]
    for path, body, sentence in refused:
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException")
        assert sentence in answer.json()["error"]["message"]
    for path, kind, sentence in (
        ("v1/namespaces/a%1Fb", "NoSuchNamespaceException", LEVELS),
        ("v1/namespaces/sales%1Fb/tables", "NoSuchNamespaceException", LEVELS),
        ("v1/namespaces?parent=sales%1Fb", "NoSuchNamespaceException", LEVELS),
        (f"{table}/a%20b", "NoSuchTableException", SPACE),
    ):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, kind)
        assert sentence in answer.json()["error"]["message"]
