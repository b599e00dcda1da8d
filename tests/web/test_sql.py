"""The SQL editor's requests: limits, cancellation, downloads, and who may change tables."""

import io
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient
from tests.web.conftest import HOSTILE_TEXT, visitor
from tests.web.test_pages import get, text_of
from tests.web.test_rollback import BEARER, HERE, TOKEN, WRITABLE

from mangrove.errors import ConflictError, InvalidInputError, StorageError
from mangrove.inspect.query import QueryLimits, QueryRunner, check_reads_only
from mangrove.lakehouse.lakehouse import Lakehouse

ENDLESS = "select sum(a.amount * f.amount) from shop.orders a " + " ".join(
    f"cross join shop.orders {name}" for name in "bcdef"
)


@pytest.fixture
def reader(shop: Lakehouse) -> Iterator[TestClient]:
    with visitor(shop) as client:
        yield client


def run(client: TestClient, text: str, status: int = 200, **fields: str) -> Any:
    answer = client.post("/api/sql", json={"id": "1", "text": text, **fields}, headers=HERE)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_query_returns_typed_columns_rows_and_the_files_that_it_opened(reader: TestClient) -> None:
    answer = run(reader, "select id, place.city from shop.orders where id >= 90 order by id")
    assert answer["columns"] == [{"name": "id", "type": "bigint"}, {"name": "city", "type": "string"}]
    assert answer["rows"][0] == [90, "Lisbon"]
    assert len(answer["rows"]) == 10
    (files,) = answer["files"]
    assert files["table"] == "shop.orders"
    assert files["skipped"] > 0


def test_explain_names_the_files_that_are_opened_and_skipped(reader: TestClient) -> None:
    ((plan,),) = run(reader, "explain select * from shop.orders where id = 5")["rows"]
    assert "read" in plan
    assert "skipped" in plan


@pytest.mark.parametrize(
    "text",
    [
        "drop table shop.orders",
        "delete from shop.orders",
        "insert into shop.orders (id) values (1)",
        "with a as (select 1 as id) insert into shop.orders (id) select id from a",
        "merge into shop.orders t using shop.orders s on t.id = s.id when matched then delete",
        "create table shop.more (id int)",
        "create temporary view v as select 1",
        "call system.compact('shop.orders')",
        "execute immediate 'drop table shop.orders'",
        "begin transaction",
        "use shop",
        "select 1; drop table shop.orders",
        "",
    ],
)
def test_a_read_only_server_runs_only_statements_without_changes(
    shop: Lakehouse, reader: TestClient, text: str
) -> None:
    version = shop.version
    run(reader, text, 400)
    assert shop.version == version


def test_rows_beyond_the_limit_are_not_returned_and_the_response_reports_it(shop: Lakehouse) -> None:
    answer = QueryRunner(shop, QueryLimits(rows_max=7)).run("1", "select id from shop.orders")
    assert (len(answer.rows), answer.has_more) == (7, True)


def test_a_statement_is_cancelled_after_its_timeout(shop: Lakehouse) -> None:
    runner = QueryRunner(shop, QueryLimits(seconds_max=0.5))
    with pytest.raises(InvalidInputError, match=r"cancelled after 0\.5 seconds"):
        runner.run("1", ENDLESS)


def test_a_statement_is_cancelled_by_its_id_from_another_thread(shop: Lakehouse) -> None:
    runner = QueryRunner(shop)
    errors: list[str] = []

    def work() -> None:
        try:
            runner.run("one", ENDLESS)
        except InvalidInputError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    while not runner.cancel("one") and thread.is_alive():
        pass
    thread.join()
    assert errors == ["the statement was cancelled"]
    assert runner.cancel("one") is False


def test_too_many_concurrent_statements_are_rejected(shop: Lakehouse) -> None:
    runner = QueryRunner(shop, QueryLimits(concurrent_max=0))
    with pytest.raises(ConflictError, match="the limit is 0"):
        runner.run("1", "select 1")


def test_a_statement_that_needs_more_memory_than_the_limit_fails(shop: Lakehouse) -> None:
    runner = QueryRunner(shop, QueryLimits(memory_bytes_max=1_000_000))
    text = "select a.id, b.id, count(*) from shop.orders a cross join shop.orders b group by a.id, b.id"
    with pytest.raises(StorageError, match="failed to allocate"):
        runner.run("1", text)


def test_the_rows_of_a_query_are_downloaded_as_csv_and_parquet(reader: TestClient) -> None:
    fields = {"id": "1", "text": "select id, tags from shop.orders order by id"}
    answer = reader.post("/sql/export", data={**fields, "format": "csv"}, headers=HERE)
    assert answer.headers["content-disposition"] == 'attachment; filename="rows.csv"'
    assert pa_csv.read_csv(io.BytesIO(answer.content)).column("id").to_pylist() == [*range(100)]
    answer = reader.post("/sql/export", data={**fields, "format": "parquet"}, headers=HERE)
    assert pq.read_table(io.BytesIO(answer.content)).column("tags").to_pylist()[0] == ["a", "b"]
    for wrong in ({"format": "exe"}, {"format": "csv", "text": "drop table shop.orders"}):
        assert reader.post("/sql/export", data={**fields, **wrong}, headers=HERE).status_code == 400


@pytest.mark.parametrize("path", ["/api/sql", "/api/sql/cancel", "/sql/export"])
@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}]
)
def test_a_cross_origin_page_cannot_run_statements(client: TestClient, path: str, headers: dict[str, str]) -> None:
    assert client.post(path, content=b"{}", headers=headers).status_code == 403


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"id": 1}', b'{"text": "select 1"}', b"x" * 200_001])
def test_an_invalid_statement_request_is_rejected_in_one_sentence(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/sql", content=body, headers=HERE)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_a_writable_server_changes_tables_only_with_the_csrf_token_or_the_token(shop: Lakehouse) -> None:
    with visitor(shop, WRITABLE) as writer:
        assert writer.post("/api/sql", json={"id": "1", "text": "select 1"}).status_code == 401
        writer.get(f"/?token={TOKEN}")
        text = "create table shop.more (id int)"
        run(writer, text, 400)
        assert "more" not in [table.name for table in shop.tables("shop")]
        answer = writer.post("/api/sql", json={"id": "1", "text": text}, headers=BEARER)
        assert answer.status_code == 200, answer.text
        assert "more" in [table.name for table in shop.tables("shop")]


def test_only_the_editor_may_run_scripts_and_only_its_own(reader: TestClient) -> None:
    policy = reader.get("/sql").headers["content-security-policy"]
    assert "script-src 'self'; connect-src 'self'" in policy
    assert "unsafe" not in policy
    for path in ("/", "/tables/shop.orders", "/api/sql", "/static/editor.js"):
        assert "script-src" not in reader.get(path).headers["content-security-policy"]
    assert reader.get("/static/editor.js").headers["content-type"].startswith("text/javascript")


def test_the_editor_has_completion_names_and_an_initial_text(reader: TestClient) -> None:
    tables = {table["name"]: table["columns"] for table in reader.get("/api/sql").json()["tables"]}
    assert tables["shop.orders"] == ["id", "customer", "amount", "place", "tags"]
    assert "shop.cheap" in tables
    page = reader.get("/sql", params={"text": HOSTILE_TEXT})
    assert HOSTILE_TEXT in text_of(page.text)
    assert page.text.count("<script") == 1


def test_the_rows_of_a_view_are_displayed_at_the_version_of_the_page(shop: Lakehouse, reader: TestClient) -> None:
    version = shop.version
    assert "Rows 1 to 10." in get(reader, "/views/shop.cheap/rows")
    shop.table("shop.orders").delete("true")
    assert "There are no rows here." in get(reader, "/views/shop.cheap/rows")
    assert "Rows 1 to 10." in get(reader, f"/views/shop.cheap/rows?version={version}")
    assert reader.get("/views/shop.cheap/rows?offset=10001").status_code == 400
    assert 'href="/views/shop.cheap/rows"' in reader.get("/views/shop.cheap").text


def test_a_computed_name_is_not_evaluated_when_a_statement_is_classified() -> None:
    with pytest.raises(InvalidInputError, match="only SELECT"):
        check_reads_only("drop table identifier('shop.' || 'orders')")
