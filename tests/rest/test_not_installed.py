"""The server without what is optional: it starts, shows pages, and says what to install."""

import subprocess
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.rest.conftest import counted, filled, request_info

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.app import has_iceberg

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
import mangrove
from starlette.testclient import TestClient
from mangrove.server.access import Access
from mangrove.server.app import build_app

with TestClient(build_app(mangrove.open(sys.argv[1]), Access("127.0.0.1")), base_url="http://127.0.0.1") as client:
    for path in ("tables/orders", "views/daily", "views"):
        answer = client.get(f"/iceberg/v1/namespaces/sales/{path}")
        print(answer.status_code, answer.json().get("error", {}).get("message", "").partition(";")[2])
"""


@pytest.fixture
def bare(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A client of a server on whose machine PyIceberg is not found."""
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    assert not has_iceberg()
    return request_info(counted(lake))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "v1/config"),
        ("GET", "v1/namespaces/sales/tables/orders"),
        ("POST", "v1/oauth/tokens"),
        ("DELETE", "v1/x"),
    ],
)
def test_the_error_names_the_package_to_install_on_the_server(bare: TestClient, method: str, path: str) -> None:
    answer = bare.request(method, path)
    assert (answer.status_code, answer.json()["error"]["type"]) == (501, "UnsupportedOperationException")
    assert "pip install 'mangrove-lake[iceberg]'" in answer.json()["error"]["message"]


def test_without_pyiceberg_pages_are_displayed_and_offer_no_other_engines(bare: TestClient) -> None:
    page = bare.get("http://127.0.0.1/tables/sales.orders")
    assert page.status_code == 200
    assert "Open in other engines" not in page.text
    assert bare.get("http://127.0.0.1/healthz").status_code == 200


def test_tables_and_views_are_served_where_spark_is_not_installed(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    command = [sys.executable, "-c", WITHOUT_SPARK, lake.uri]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.splitlines() == ["200 ", "200 ", "200 "]
