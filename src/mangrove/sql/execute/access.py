"""Execution of GRANT, REVOKE and SHOW GRANTS."""

from mangrove.lakehouse.access import AccessControl
from mangrove.sql.execute.show import InlineResult
from mangrove.sql.parse.statements import GrantStatement, ShowStatement
from mangrove.sql.parse.tokens import SqlName
from mangrove.sql.resolver import NameResolver

__all__ = ["execute_grant", "execute_show_grants"]


def execute_grant(statement: GrantStatement, access: AccessControl, resolver: NameResolver) -> str:
    """Grant or revoke a privilege or a role, and return a message."""
    grantee, verb = statement.grantee, "revoked" if statement.is_revoke else "granted"
    end = f"{'from' if statement.is_revoke else 'to'} {grantee}"
    if statement.role is not None:
        (access.revoke_role if statement.is_revoke else access.grant_role)(statement.role, grantee)
        return f"{verb} role {statement.role} {end}"
    assert statement.privilege is not None
    name = _object_of(statement.kind, statement.name, resolver)
    (access.revoke if statement.is_revoke else access.grant)(statement.privilege, name, grantee)
    return f"{verb} {statement.privilege.lower()} on {name or 'the lakehouse'} {end}"


def execute_show_grants(statement: ShowStatement, access: AccessControl, resolver: NameResolver) -> InlineResult:
    """Return a row for each grant."""
    kind = statement.kind.removesuffix(" grants")
    found = access.grants(_object_of(kind, statement.name, resolver))
    rows = tuple(
        (one.grantee, one.privilege, one.kind, one.name or None)
        for one in found
        if kind != "lakehouse" or one.kind == kind
    )
    return InlineResult("grantee string, privilege string, kind string, name string", rows)


def _object_of(kind: str, name: SqlName | None, resolver: NameResolver) -> str | None:
    if name is None:
        return None
    return str(resolver.namespace_of(name) if kind == "namespace" else resolver.table(name))
