"""The access command, on a real lakehouse in a folder."""

from typing import Any

import mangrove
from mangrove.model.access import hash_token


def test_a_role_gets_a_grant_and_a_principal_its_token(run: Any, lake: str) -> None:
    assert run("access", lake, "create-role", "analyst").code == 0
    token = run("access", lake, "create-principal", "ana", "--role", "analyst", "--json").json["token"]
    assert run("access", lake, "grant", "read", "--on", "sales.orders", "--to", "analyst").code == 0
    assert run("access", lake, "grant", "write", "--on-lakehouse", "--to", "ana").code == 0
    listed = run("access", lake, "--json").json
    assert listed["principals"] == [{"name": "ana", "roles": ["analyst"]}]
    assert listed["grants"] == [
        {"grantee": "ana", "privilege": "write", "kind": "lakehouse", "name": ""},
        {"grantee": "analyst", "privilege": "read", "kind": "table", "name": "sales.orders"},
    ]
    assert mangrove.open(lake).access.rules().principals["ana"].token_digest == hash_token(token)
    shown = run("access", lake).out
    assert "table sales.orders" in shown
    assert token not in shown


def test_tokens_are_rotated_and_grants_and_principals_end(run: Any, lake: str) -> None:
    first = run("access", lake, "create-principal", "ana").out.strip()
    second = run("access", lake, "rotate-token", "ana").out.strip()
    assert first.startswith("mangrove_")
    assert first != second
    run("access", lake, "grant", "manage", "--on", "sales", "--to", "ana")
    assert run("access", lake, "revoke", "manage", "--on", "sales", "--from", "ana").code == 0
    for words in (
        ("create-role", "admin"),
        ("grant-role", "admin", "--to", "ana"),
        ("revoke-role", "admin", "--from", "ana"),
        ("drop-role", "admin"),
        ("drop-principal", "ana"),
    ):
        assert run("access", lake, *words).code == 0, words
    assert run("access", lake, "--json").json == {"principals": [], "roles": [], "grants": []}
    assert "no principals" in run("access", lake).out


def test_incomplete_actions_are_refused(run: Any, lake: str) -> None:
    run("access", lake, "create-principal", "ana")
    for words, reason in (
        (("grant", "read", "--to", "ana"), "--on-lakehouse"),
        (("grant", "read", "--on", "sales", "--on-lakehouse", "--to", "ana"), "--on-lakehouse"),
        (("grant", "read", "--on", "sales"), "--to NAME"),
        (("create-role",), "needs a name"),
        (("grant", "own", "--on", "sales", "--to", "ana"), "unknown privilege 'own'"),
    ):
        done = run("access", lake, *words)
        assert done.code == 2, words
        assert reason in done.err
