"""The explorer's page of a table says how other engines open it, and what it says for PyIceberg works as it stands."""

import html
import re
import urllib.request
from typing import Any

import pytest
from tests.rest.conftest import TOKEN, counted, request_info, served

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.locators import TableLocator
from mangrove.server.access import Access
from mangrove.web.pages.connect import IcebergConnection, render_snippets

SNIPPET = re.compile(r'<summary>([^<]*)</summary><pre class="snippet" tabindex="0">([^<]*)</pre>')


def told(page: str) -> dict[str, str]:
    return {html.unescape(name): html.unescape(text) for name, text in SNIPPET.findall(page)}


def page_of(address: str, query: str = "") -> str:
    with urllib.request.urlopen(f"{address.removesuffix('/iceberg')}/tables/sales.orders{query}") as answer:
        return str(answer.read().decode())


def rows_read_by(snippet: str) -> int:
    lines, _, last = snippet.rpartition("\n")
    names: dict[str, Any] = {}
    exec(lines, names)
    with names["catalog"]:
        return int(eval(last, names).num_rows)


def test_the_pyiceberg_code_of_a_page_reads_the_table(lake: Lakehouse, address: str) -> None:
    assert rows_read_by(told(page_of(address))["PyIceberg"]) == 3


def test_the_code_of_the_page_of_an_earlier_version_reads_that_version(lake: Lakehouse, address: str) -> None:
    assert rows_read_by(told(page_of(address, "?version=3"))["PyIceberg"]) == 2
    texts = told(page_of(address, "?version=3"))
    assert "ATTACH '3' AS lake" in texts["DuckDB"]
    assert "spark.sql.catalog.lake.warehouse=3" in texts["Spark with Iceberg's JAR"]


def test_the_connection_code_omits_the_token(lake: Lakehouse) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    with request_info(counted(lake), Access("127.0.0.1", TOKEN)) as client:
        page = client.get("http://127.0.0.1/tables/sales.orders", headers=bearer).text
    texts = told(page)
    assert TOKEN not in page
    assert all("…" in text for text in texts.values())


def test_names_are_quoted_for_each_engine() -> None:
    where = IcebergConnection("http://lake:8181/iceberg", "s3://bucket/lake/")
    texts = dict(render_snippets(where, TableLocator("a.b", "o'`\"x")))
    assert """load_table(('a.b', 'o\\'`"x'))""" in texts["PyIceberg"]
    assert 'FROM lake."a.b"."o\'`""x";' in texts["DuckDB"]
    assert "ATTACH '' AS lake" in texts["DuckDB"]
    assert "FROM lake.`a.b`.`o'``\"x`;" in texts["Spark with Iceberg's JAR"]
    assert "fs.native-s3.enabled=true" in texts["Trino"]


@pytest.mark.parametrize("name", ["sales.outside"])
def test_an_external_table_is_not_offered_to_other_engines(lake: Lakehouse, name: str) -> None:
    with request_info(counted(lake)) as client:
        assert "Open in other engines" not in client.get(f"http://127.0.0.1/tables/{name}").text


def test_a_lakehouse_in_memory_is_not_offered_to_other_processes() -> None:
    lake = mangrove.create("memory://nobody-else-sees-it")
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int")
    with request_info(lake) as client:
        assert "Open in other engines" not in client.get("http://127.0.0.1/tables/sales.orders").text


def test_requests_of_clients_are_counted_by_route(lake: Lakehouse) -> None:
    with served(counted(lake)) as address:
        with urllib.request.urlopen(f"{address}/v1/config"), urllib.request.urlopen(f"{address}/v1/namespaces"):
            pass
        for path in ("tables/orders", "views/daily"):
            with urllib.request.urlopen(f"{address}/v1/namespaces/sales/{path}"):
                pass
            with urllib.request.urlopen(f"{address}/v1/version-5/namespaces/sales/{path}") as answer:
                assert answer.status == 200
        with urllib.request.urlopen(f"{address.removesuffix('/iceberg')}/metrics") as answer:
            counts = re.findall(r'page="(iceberg-\w+)",status="200"} (\d+)', answer.read().decode())
    assert dict(counts) == {
        "iceberg-config": "1",
        "iceberg-namespaces": "1",
        "iceberg-tables": "2",
        "iceberg-views": "2",
    }
