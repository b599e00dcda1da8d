"""The access command, which lists and changes principals, roles and grants."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.catalog import build_list_table
from mangrove.cli.command import lake_command
from mangrove.cli.context import CommandContext
from mangrove.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mangrove.lakehouse.access import AccessControl, ListedGrant

__all__ = ["access_command"]

_ACTIONS = (
    "create-principal", "rotate-token", "drop-principal", "create-role", "drop-role",
    "grant-role", "revoke-role", "grant", "revoke",
)  # fmt: skip


@lake_command(
    "access",
    "mangrove access ./lake\n"
    "mangrove access ./lake create-role analyst\n"
    "mangrove access ./lake create-principal ana --role analyst\n"
    "mangrove access ./lake grant read --on sales.orders --to analyst\n"
    "mangrove access ./lake grant manage --on-lakehouse --to ana\n"
    "mangrove access ./lake revoke read --on sales.orders --from analyst\n"
    "mangrove access ./lake rotate-token ana",
)
@click.argument("action", required=False, metavar="[ACTION]", type=click.Choice(_ACTIONS))
@click.argument("value", required=False, metavar="[NAME]")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Role of a new principal.")
@click.option("--on", "name", metavar="NAME", help="Namespace, table or view of a grant.")
@click.option("--on-lakehouse", is_flag=True, help="Grant or revoke on the whole lakehouse.")
@click.option("--to", "--from", "grantee", metavar="NAME", help="Principal or role that gets or loses something.")
def access_command(
    session: CommandContext, lake: str, action: str | None, value: str | None, roles: Sequence[str],
    name: str | None, on_lakehouse: bool, grantee: str | None,
) -> None:  # fmt: skip
    """List or change principals, roles and grants.

    ACTION is create-principal, rotate-token, drop-principal, create-role or drop-role with the
    NAME of a principal or role; grant-role or revoke-role with a role; grant or revoke with a
    privilege: read, write or manage. Rights restrict the clients of `mangrove serve`; a process
    with access to the storage can do everything.

    create-principal and rotate-token print the token, which is not shown again.
    """
    access = session.open(lake).access
    if action is None:
        _list_access(session, access)
        return
    if value is None:
        raise InvalidInputError(f"{action} needs a name or a privilege; see `mangrove access --help`")
    if action in ("grant", "revoke") and (name is None) is not on_lakehouse:
        raise InvalidInputError(f"{action} needs --on NAME or --on-lakehouse")
    if action in ("grant", "revoke", "grant-role", "revoke-role") and grantee is None:
        raise InvalidInputError(f"{action} needs the principal or role: --to NAME, or --from NAME")
    token = _run_action(access, action, value, roles, name, grantee or "")
    answer = {"action": action, "name": value, "token": token}
    session.answer({**answer}, lambda: f"{action} {value}: done" if token is None else token)


def _run_action(
    access: AccessControl, action: str, value: str, roles: Sequence[str], name: str | None, grantee: str
) -> str | None:
    """Run an action and return the token of a principal, if there is a new one."""
    match action:
        case "create-principal":
            return access.create_principal(value, roles=roles)
        case "rotate-token":
            return access.rotate_token(value)
        case "drop-principal":
            access.drop_principal(value)
        case "create-role":
            access.create_role(value)
        case "drop-role":
            access.drop_role(value)
        case "grant-role":
            access.grant_role(value, grantee)
        case "revoke-role":
            access.revoke_role(value, grantee)
        case "grant":
            access.grant(value, name, grantee)
        case _:
            access.revoke(value, name, grantee)
    return None


def _list_access(session: CommandContext, access: AccessControl) -> None:
    principals, roles, grants = access.principals(), access.roles(), access.grants()
    session.answer(
        {
            "principals": [{"name": one.name, "roles": list(one.roles)} for one in principals],
            "roles": [*roles],
            "grants": [asdict(one) for one in grants],
        },
        lambda: Group(
            _render_names("principal", [(one.name, ", ".join(one.roles)) for one in principals], "roles"),
            _render_names("role", [(one,) for one in roles]),
            _render_grants(grants),
        ),
    )


def _render_names(what: str, rows: Sequence[tuple[str, ...]], *others: str) -> RenderableType:
    if not rows:
        return Text(f"no {what}s; create one with `mangrove access LAKE create-{what} NAME`", style="dim")
    table = build_list_table(what, *others)
    for row in rows:
        table.add_row(*row)
    return table


def _render_grants(grants: Sequence[ListedGrant]) -> RenderableType:
    if not grants:
        return Text("no grants", style="dim")
    table = build_list_table("grantee", "privilege", "on")
    for one in grants:
        table.add_row(one.grantee, one.privilege, f"{one.kind} {one.name}".strip())
    return table
