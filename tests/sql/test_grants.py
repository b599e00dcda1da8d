"""GRANT, REVOKE and SHOW GRANTS."""

from pathlib import Path
from typing import Any

import pytest

import mangrove
from mangrove import AccessDeniedError, InvalidInputError, Lakehouse, NotFoundError
from mangrove.sql.session import SqlSession


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint")
    lake.create_view("sales.all", "select * from sales.orders", reads=["sales.orders"])
    lake.access.create_role("analyst")
    lake.access.create_principal("ana@example.org")
    return lake


def run(lake: Lakehouse, text: str) -> list[Any]:
    return list(SqlSession(lake, engine="duckdb").script(text))[-1].rows()


def test_grants_on_all_kinds_of_objects_are_shown_and_revoked(lake: Lakehouse) -> None:
    run(
        lake,
        "grant read on table sales.orders to role analyst; grant write on namespace sales to 'ana@example.org';"
        " grant READ on view sales.all to analyst; grant manage on lakehouse to principal 'ana@example.org';"
        " use sales; grant write on orders to analyst; grant role analyst to 'ana@example.org'",
    )
    assert run(lake, "show grants") == [
        ("ana@example.org", "write", "namespace", "sales"),
        ("ana@example.org", "manage", "lakehouse", None),
        ("analyst", "read", "table", "sales.orders"),
        ("analyst", "read", "view", "sales.all"),
        ("analyst", "write", "table", "sales.orders"),
    ]
    assert len(run(lake, "show grants on sales.orders")) == 2
    assert len(run(lake, "show grants on namespace sales")) == 1
    assert len(run(lake, "show grants on lakehouse")) == 1
    run(lake, "revoke read on sales.orders from analyst; revoke role analyst from 'ana@example.org'")
    assert run(lake, "show grants on sales.orders") == []
    assert lake.access.principals()[0].roles == ()


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("grant own on sales.orders to analyst", InvalidInputError, "unknown privilege 'own'"),
        ("grant read on sales.missing to analyst", NotFoundError, "sales.missing does not exist"),
        ("grant read on sales.orders to eve", NotFoundError, "eve"),
        ("grant read on sales.orders from analyst", InvalidInputError, "TO"),
        ("revoke read on sales.orders from analyst", InvalidInputError, "no grant of read"),
        ("begin; grant read on sales.orders to analyst", InvalidInputError, "inside a transaction"),
        ("grant read on `sales.orders; drop table sales.orders` to analyst", InvalidInputError, "holds"),
    ],
)
def test_invalid_grants_are_refused(lake: Lakehouse, text: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        run(lake, text)
    assert "sales.orders" in lake


def test_a_principal_grants_what_it_manages_and_sees_its_own_grants(lake: Lakehouse) -> None:
    lake.create_namespace("staff")
    lake.access.create_principal("bob")
    lake.access.grant("manage", "sales", to="bob")
    bob = lake.as_principal("bob")
    run(bob, "grant read on sales.orders to analyst")
    assert run(bob, "show grants") == [("bob", "manage", "namespace", "sales")]
    with pytest.raises(AccessDeniedError):
        run(bob, "grant read on lakehouse to bob")
    with pytest.raises(NotFoundError):
        run(bob, "grant manage on namespace staff to bob")
    lake.access.grant("read", "staff", to="bob")
    with pytest.raises(AccessDeniedError):
        run(lake.as_principal("bob"), "grant manage on namespace staff to bob")
