"""Principals in the explorer: pages, SQL, downloads and forms with the rights of who sent the request."""

import json
import logging
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import visitor
from tests.web.test_rollback import HERE, TOKEN, WRITABLE, form_of

from mangrove.errors import ConflictError
from mangrove.inspect.query import QueryRunner
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.server.access import COOKIE, Access, Caller, RequestInfo, find_caller
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore
from mangrove.wiring import build_engines_factory

ACCESS = Access("127.0.0.1", TOKEN)


@pytest.fixture
def staffed() -> Lakehouse:
    """Return a lakehouse with a table that ana reads and one that she does not."""
    lake = create_on_store(build_deterministic_effects(MemoryStore()), engines=build_engines_factory(None))
    for name in ("sales", "staff"):
        lake.create_namespace(name)
    lake.create_table("sales.orders", "id bigint").append([{"id": 7}])
    lake.create_table("staff.salaries", "secret bigint").append([{"secret": 424242}])
    lake.create_view("sales.leak", "select * from staff.salaries", reads=["staff.salaries"])
    return lake


@pytest.fixture
def token(staffed: Lakehouse) -> str:
    created = staffed.access.create_principal("ana")
    staffed.access.grant("read", "sales", to="ana")
    return created


@pytest.fixture
def ana(staffed: Lakehouse, token: str) -> Iterator[TestClient]:
    with visitor(staffed, WRITABLE) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


def run(client: TestClient, text: str, **fields: str) -> tuple[int, str]:
    answer = client.post("/api/sql", json={"id": "1", "text": text, **fields}, headers=HERE)
    return answer.status_code, answer.text


def test_no_page_shows_a_principal_what_it_may_not_read(ana: TestClient) -> None:
    pages = ["/", "/namespaces", "/namespaces/sales", "/search?text=s", "/sql", "/history", "/history/5", "/lineage"]
    for path in [*pages, *(f"/api{page}" for page in pages), "/tables/sales.orders", "/tables/sales.orders/rows"]:
        answer = ana.get(path)
        assert answer.status_code == 200, path
        shown = answer.text.replace("select * from staff.salaries", "").replace("staff.salaries", "")
        assert "salaries" not in shown, path
        assert "424242" not in shown, path


@pytest.mark.parametrize(
    "path", ["/namespaces/staff", "/tables/staff.salaries", "/tables/staff.salaries/rows", "/objects?name=staff"]
)
def test_what_a_principal_may_not_read_is_not_found(ana: TestClient, path: str) -> None:
    assert ana.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/tree", "/storage", "/api/tree", "/api/storage"])
def test_pages_about_all_files_need_read_on_the_lakehouse(staffed: Lakehouse, ana: TestClient, path: str) -> None:
    assert ana.get(path).status_code == 403
    staffed.access.grant("read", None, to="ana")
    assert ana.get(path).status_code == 200


def test_sql_reads_with_the_rights_of_the_principal_also_through_views(ana: TestClient) -> None:
    assert run(ana, "select * from sales.orders")[0] == 200
    for text in (
        "select * from staff.salaries",
        "select * from sales.leak",
        "select * from staff.salaries version as of 4",
        "select * from changes('staff.salaries', 4)",
        "select * from files('staff.salaries')",
        "show tables in staff",
        "create temporary view v as select * from staff.salaries",
        "insert into sales.orders select secret from staff.salaries",
    ):
        status, answer = run(ana, text)
        assert status in (400, 404), text
        assert "424242" not in answer


def test_sql_changes_need_the_privilege(staffed: Lakehouse, ana: TestClient) -> None:
    version = staffed.version
    for text in (
        "insert into sales.orders values (1)",
        "delete from sales.orders",
        "drop table sales.orders",
        "create table sales.more (id int)",
        "call system.rollback(3)",
        "call system.vacuum()",
        "call system.export('memory://elsewhere/', 'copy')",
    ):
        assert run(ana, text)[0] == 403, text
    assert staffed.version == version
    staffed.access.grant("write", "sales", to="ana")
    assert run(ana, "insert into sales.orders values (1)")[0] == 200
    assert staffed.history()[0].author == "ana"


def test_rows_that_another_principal_read_are_not_served_from_a_cache(staffed: Lakehouse, ana: TestClient) -> None:
    with visitor(staffed, WRITABLE) as owner:
        owner.headers["Authorization"] = f"Bearer {TOKEN}"
        assert run(owner, "select * from staff.salaries")[0] == 200
        assert run(owner, "cache table staff.salaries")[0] == 200
        assert run(ana, "select * from staff.salaries")[0] == 404
        assert run(owner, "select * from staff.salaries")[0] == 200


def test_a_revoke_ends_what_the_principal_cached(staffed: Lakehouse, ana: TestClient) -> None:
    version = staffed.version
    text = f"select * from sales.orders version as of {version}"
    assert run(ana, text)[0] == 200
    staffed.access.revoke("read", "sales", from_="ana")
    status, answer = run(ana, text)
    assert status == 400
    assert "sales" in answer
    assert "7" not in json.loads(answer)["error"]["message"].replace(f" {version}", "")


def test_a_principal_logs_in_and_its_session_ends_with_its_token(staffed: Lakehouse, token: str) -> None:
    with visitor(staffed, ACCESS) as client:
        answer = client.get(f"/?token={token}")
        assert answer.status_code == 303
        assert token not in answer.headers["set-cookie"]
        assert client.get("/tables/sales.orders").status_code == 200
        assert client.get("/tables/staff.salaries").status_code == 404
        staffed.access.rotate_token("ana")
        assert client.get("/tables/sales.orders").status_code == 401


def test_a_cookie_with_another_name_is_no_session(staffed: Lakehouse, token: str) -> None:
    staffed.access.create_principal("bob")
    rules = staffed.access.rules()
    found = find_caller(ACCESS, RequestInfo("/", authorization=f"Bearer {token}"), rules)
    assert isinstance(found, Caller)
    cookie = found.session_cookie
    assert find_caller(ACCESS, RequestInfo("/", cookies={COOKIE: cookie}), rules) == found
    for forged in (
        cookie.replace("ana", "bob"),
        cookie.removesuffix(".ana"),
        ".ana",
        "ana",
        rules.principals["ana"].token_digest,
    ):
        assert find_caller(ACCESS, RequestInfo("/", cookies={COOKIE: forged}), rules) is None


def test_a_form_of_another_principal_is_refused(staffed: Lakehouse, token: str) -> None:
    other = staffed.access.create_principal("bob")
    staffed.access.grant("manage", None, to="ana")
    staffed.access.grant("manage", None, to="bob")
    preview = f"/history/3?against={staffed.version}"
    with visitor(staffed, WRITABLE) as ana, visitor(staffed, WRITABLE) as bob:
        ana.get(f"/?token={token}")
        bob.get(f"/?token={other}")
        address, fields = form_of(ana, preview)
        assert bob.post(address, data=fields, headers=HERE).status_code == 403
        assert ana.post(address, data=fields, headers=HERE).status_code == 303
    assert staffed.history()[0].author == "ana"


def test_a_rollback_by_a_principal_without_manage_is_refused_and_logged(
    staffed: Lakehouse, ana: TestClient, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    version = staffed.version
    with caplog.at_level(logging.INFO, "mangrove.audit"):
        assert ana.post(f"/api/history/3/rollback?token={token}").status_code == 403
    assert staffed.version == version
    (entry,) = [json.loads(record.message) for record in caplog.records if record.name == "mangrove.audit"]
    assert (entry["principal"], entry["path"], entry["status"]) == ("ana", "/api/history/3/rollback", 403)
    assert token not in caplog.text


def test_a_refused_compaction_or_insert_leaves_no_files(staffed: Lakehouse, ana: TestClient) -> None:
    orders = staffed.table("sales.orders")
    orders.alter({"write.inline-rows-max-bytes": "0"})
    for number in range(3):
        orders.append([{"id": number}])
    before = {entry.path for entry in staffed.effects.store.list()}
    assert ana.post("/api/tables/sales.orders/compact").status_code == 403
    assert run(ana, "insert into sales.orders values (1)")[0] == 403
    assert {entry.path for entry in staffed.effects.store.list()} == before


def test_show_grants_and_grant_do_not_reveal_what_a_principal_may_not_read(ana: TestClient) -> None:
    for text in ("show grants on {}", "grant read on table {} to ana", "revoke read on table {} from ana"):
        hidden, missing = (run(ana, text.format(name)) for name in ("staff.salaries", "gone.salaries"))
        assert hidden[0] == 404
        assert hidden == (missing[0], missing[1].replace("gone", "staff"))


def test_a_principal_has_two_statements_in_progress_and_cancels_only_its_own(staffed: Lakehouse, token: str) -> None:
    assert token
    runner = QueryRunner(staffed)
    ana = runner.on(staffed.as_principal("ana"))
    text = "select * from sales.orders"
    downloads = [ana.export(name, text, "csv") for name in ("1", "2")]
    with pytest.raises(ConflictError, match="2 statements are in progress, and the limit is 2"):
        ana.run("3", text)
    others = [runner.export(name, text, "csv") for name in ("1", "2")]
    assert ana.cancel("1")
    assert b"".join(others[0]) == b"id\n7\n"
    assert not runner.cancel("1")
    assert b"".join(downloads[1]) == b"id\n7\n"
    assert len(ana.run("3", text).rows) == 1


@pytest.mark.parametrize("path", ["/", "/api/", "/iceberg/v1/config", "/iceberg/v1/oauth/tokens"])
def test_an_unauthenticated_request_gets_no_details_of_a_storage_error(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = FaultyStore(MemoryStore("memory://secret-folder/"), Faults(0))
    clock = Clock(tick_millis=0)
    lake = create_on_store(build_deterministic_effects(store, clock))
    clock.now_millis += 10_000
    with visitor(lake, WRITABLE) as client, caplog.at_level(logging.INFO):
        for operation in ("list", "read", "size"):
            store.fail_next(operation, "before")
        form = {"grant_type": "client_credentials", "client_secret": "a wrong token of somebody"}
        answer = client.post(path, data=form, headers={**HERE, "Authorization": "Bearer a wrong token of somebody"})
    assert (answer.status_code, "The access rules cannot be read now" in answer.text) == (503, True)
    assert "secret-folder" not in answer.text
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "secret-folder" in caplog.text
    (entry,) = [json.loads(record.message) for record in caplog.records if record.name == "mangrove.audit"]
    assert (entry["principal"], entry["status"]) == (None, 503)


def test_the_token_of_a_principal_is_wrong_without_a_server_token_of_its_own(staffed: Lakehouse, token: str) -> None:
    staffed.access.drop_principal("ana")
    with visitor(staffed, ACCESS) as client:
        assert client.get("/", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_the_overview_does_not_show_hashes_of_tokens(staffed: Lakehouse, token: str) -> None:
    digest = staffed.access.rules().principals["ana"].token_digest
    with visitor(staffed, ACCESS) as owner:
        page = owner.get("/", headers={"Authorization": f"Bearer {TOKEN}"})
    assert page.status_code == 200
    assert digest not in page.text


def test_counts_of_the_overview_are_those_of_the_principal(staffed: Lakehouse, ana: TestClient) -> None:
    with visitor(staffed, ACCESS) as owner:
        everything = owner.get("/api/", headers={"Authorization": f"Bearer {TOKEN}"}).json()
    own = ana.get("/api/").json()
    assert (everything["tally"]["tables"], own["tally"]["tables"]) == (2, 1)
    assert (everything["live_rows"]["rows"], own["live_rows"]["rows"]) == (2, 1)


def test_a_principal_that_another_process_dropped_is_refused_after_a_second() -> None:
    store, clock = MemoryStore(), Clock(tick_millis=0)
    lake = create_on_store(build_deterministic_effects(store, clock))
    headers = {"Authorization": f"Bearer {lake.access.create_principal('ana')}"}
    with visitor(open_on_store(build_deterministic_effects(store, clock, 10**6)), ACCESS) as client:
        assert client.get("/", headers=headers).status_code == 200
        lake.access.drop_principal("ana")
        clock.now_millis += 1_001
        assert client.get("/", headers=headers).status_code == 401
