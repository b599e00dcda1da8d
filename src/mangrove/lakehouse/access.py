"""Access control: principals, roles and grants of a lakehouse, and the lakehouse as one principal may use it.

A process with access to the storage can do everything. Rights restrict the clients of a server,
and programs that use `lake.as_principal`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mangrove.errors import AccessDeniedError, AlreadyExistsError, InvalidInputError
from mangrove.lakehouse.alias import parse_named_argument
from mangrove.model.access import (
    AccessRules,
    Grant,
    Principal,
    Privilege,
    Rights,
    check_principal_name,
    hash_token,
    load_rules,
    parse_privilege,
    store_rules,
)
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, TableEntry, ViewEntry
from mangrove.transaction.aliases import locate_table, locate_view
from mangrove.transaction.authorization import AuthorizedMetastore, check_lakehouse
from mangrove.transaction.catalog import find_namespace, find_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.metastore import MetastoreSnapshot
    from mangrove.transaction.catalog import CatalogReader
    from mangrove.transaction.workspace import Workspace

__all__ = ["AccessControl", "ListedGrant", "ListedPrincipal"]

_TOKEN_PREFIX = "mangrove_"  # noqa: S105 - lets scanners of secrets find tokens
_DROPPED = "(dropped)"


@dataclass(frozen=True, slots=True)
class ListedPrincipal:
    """A principal with its roles."""

    name: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedGrant:
    """A grant with the current name of its object."""

    grantee: str
    privilege: str
    kind: str
    name: str
    """Empty for the lakehouse."""

    def __str__(self) -> str:
        return f"{self.privilege} on {self.kind}{' ' if self.name else ''}{self.name} to {self.grantee}"


@dataclass(frozen=True, slots=True)
class _Object:
    """The lakehouse, a namespace, a table or a view as the object of a grant."""

    kind: Kind
    id: str = ""
    namespace_id: str = ""
    name: str = ""

    def privilege_of(self, rights: Rights) -> Privilege:
        """Return the privilege of a principal on it."""
        if self.kind is Kind.LAKEHOUSE:
            return rights.lakehouse
        if self.kind is Kind.NAMESPACE:
            return rights.on_namespace(self.id)
        return rights.on_object(self.namespace_id, self.id)

    def __str__(self) -> str:
        return f"{self.kind.word}{' ' if self.name else ''}{self.name}"


class AccessControl:
    """Principals, roles and grants of a lakehouse.

    Without a principal all methods are allowed. A principal that has MANAGE on an object may grant and revoke
    privileges on it; principals and roles need MANAGE on the lakehouse. Each change is one commit.
    """

    def __init__(self, lake: Lakehouse, principal: str | None = None) -> None:
        self._lake = lake
        self._principal = principal

    def __repr__(self) -> str:
        return f"<access control of {self._lake.uri}>"

    def rules(self) -> AccessRules:
        """Return the rules of the newest version."""
        return load_rules(self._lake.settings)

    def create_principal(self, name: str, *, roles: Iterable[str] = ()) -> str:
        """Create a user or service, and return its token. The token cannot be shown again: only its hash is stored."""
        token = self._new_token()
        principal = Principal(check_principal_name(name), hash_token(token), tuple(sorted(roles)))

        def change(rules: AccessRules) -> AccessRules:
            _check_free(rules, name)
            return rules.with_principal(principal)

        self._change_principals(change, f"create principal {name}")
        return token

    def rotate_token(self, name: str) -> str:
        """Give a principal a new token, and return it. The old token is invalid at once."""
        token = self._new_token()
        self._change_principals(
            lambda rules: rules.with_principal(replace(rules.principal(name), token_digest=hash_token(token))),
            f"rotate the token of principal {name}",
        )
        return token

    def drop_principal(self, name: str) -> None:
        """Drop a principal and its grants."""

        def change(rules: AccessRules) -> AccessRules:
            rules.principal(name)
            return rules.without(name)

        self._change_principals(change, f"drop principal {name}")

    def create_role(self, name: str) -> None:
        """Create a role; grants to it hold for all its principals."""
        check_principal_name(name)

        def change(rules: AccessRules) -> AccessRules:
            _check_free(rules, name)
            return replace(rules, roles=rules.roles | {name})

        self._change_principals(change, f"create role {name}")

    def drop_role(self, name: str) -> None:
        """Drop a role and its grants."""

        def change(rules: AccessRules) -> AccessRules:
            rules.check_role(name)
            return rules.without(name)

        self._change_principals(change, f"drop role {name}")

    def grant_role(self, role: str, to: str) -> None:
        """Give a principal a role."""

        def change(rules: AccessRules) -> AccessRules:
            principal = rules.principal(to)
            return rules.with_principal(replace(principal, roles=tuple(sorted({*principal.roles, role}))))

        self._change_principals(change, f"grant role {role} to {to}")

    def revoke_role(self, role: str, from_: str) -> None:
        """Remove a role from a principal."""

        def change(rules: AccessRules) -> AccessRules:
            rules.check_role(role)
            principal = rules.principal(from_)
            return rules.with_principal(replace(principal, roles=tuple(one for one in principal.roles if one != role)))

        self._change_principals(change, f"revoke role {role} from {from_}")

    def grant(self, privilege: str, on: str | None, to: str) -> None:
        """Grant "read", "write" or "manage" on a namespace, table or view to a principal or role.

        None is the lakehouse. A privilege includes those before it, and holds for everything in the object.
        The grant follows the object through renames; it ends when the object is dropped.

        >>> lake.access.grant("read", "sales.orders", to="analyst")  # doctest: +SKIP
        """
        given = parse_privilege(privilege)

        def change(rules: AccessRules, target: _Object) -> AccessRules:
            rules.check_grantee(to)
            return replace(rules, grants=rules.grants | {Grant(to, given, target.kind, target.id)})

        self._change_grants(on, change, f"grant {given.word} on {on or 'the lakehouse'} to {to}")

    def revoke(self, privilege: str, on: str | None, from_: str) -> None:
        """Revoke a privilege, and those that include it, on a namespace, table or view; None is the lakehouse.

        A privilege that the principal has by another grant, for example on the namespace, remains.
        """
        least = parse_privilege(privilege)

        def change(rules: AccessRules, target: _Object) -> AccessRules:
            rules.check_grantee(from_)
            revoked = {
                one
                for one in rules.grants
                if (one.grantee, one.kind, one.id) == (from_, target.kind, target.id) and one.privilege >= least
            }
            if not revoked:
                raise InvalidInputError(f"{from_} has no grant of {least.word} on {target}; see SHOW GRANTS")
            return replace(rules, grants=rules.grants - revoked)

        self._change_grants(on, change, f"revoke {least.word} on {on or 'the lakehouse'} from {from_}")

    def principals(self) -> list[ListedPrincipal]:
        """Return the principals with their roles; a principal without MANAGE on the lakehouse sees only itself."""
        return [
            ListedPrincipal(one.name, one.roles) for one in self.rules().principals.values() if self._sees(one.name)
        ]

    def roles(self) -> list[str]:
        """Return the roles; a principal without MANAGE on the lakehouse sees only its own."""
        return sorted(name for name in self.rules().roles if self._sees(name))

    def grants(self, on: str | None = None) -> list[ListedGrant]:
        """Return the grants with the current names of their objects, or those on one namespace, table or view.

        A principal without MANAGE on the lakehouse sees only those to itself and its roles.
        """
        reading = self._restrict(self._lake._reading())
        chosen = None if on is None else _find_object(reading, on)
        names = _load_names(reading)
        return [
            ListedGrant(one.grantee, one.privilege.word, one.kind.word, names.get(one.id, _DROPPED) if one.id else "")
            for one in sorted(self.rules().grants)
            if self._sees(one.grantee) and (chosen is None or (one.kind, one.id) == (chosen.kind, chosen.id))
        ]

    def _sees(self, name: str) -> bool:
        if self._principal is None:
            return True
        rules = self.rules()
        own = rules.principals.get(self._principal)
        if rules.rights_of(self._principal).lakehouse >= Privilege.MANAGE:
            return True
        return name == self._principal or (own is not None and name in own.roles)

    def _restrict(self, snapshot: MetastoreSnapshot) -> MetastoreSnapshot:
        """Return a version without what the principal may not read, so that no answer reveals it."""
        if self._principal is None:
            return snapshot
        rights = load_rules(snapshot.settings).rights_of(self._principal)
        return AuthorizedMetastore(self._lake.metastore, rights).wrap(snapshot, snapshot)

    def _new_token(self) -> str:
        """Return a random token with 244 bits."""
        return _TOKEN_PREFIX + (self._lake._new_id() + self._lake._new_id()).replace("-", "")

    def _change_principals(self, change: Callable[[AccessRules], AccessRules], message: str) -> None:
        def authorized(rules: AccessRules, _: Workspace) -> AccessRules:
            if self._principal is not None:
                check_lakehouse(rules.rights_of(self._principal), Privilege.MANAGE)
            return change(rules)

        self._change(authorized, message)

    def _change_grants(
        self, on: str | None, change: Callable[[AccessRules, _Object], AccessRules], message: str
    ) -> None:
        def authorized(rules: AccessRules, workspace: Workspace) -> AccessRules:
            target = _Object(Kind.LAKEHOUSE) if on is None else _find_object(self._restrict(workspace.snapshot), on)
            if self._principal is not None:
                rights = rules.rights_of(self._principal)
                if target.privilege_of(rights) < Privilege.MANAGE:
                    raise AccessDeniedError(f"principal {self._principal} lacks the privilege manage on {target}")
            return change(rules, target)

        self._change(authorized, message)

    def _change(self, change: Callable[[AccessRules, Workspace], AccessRules], message: str) -> None:
        def work(transaction: object) -> None:
            workspace = transaction._reading()  # type: ignore[attr-defined]
            rules = change(load_rules(workspace.settings), workspace)
            workspace.settings = store_rules(workspace.settings, rules)

        self._lake.run(work, message=message, author=self._principal or "")


def _check_free(rules: AccessRules, name: str) -> None:
    if name in rules.principals or name in rules.roles:
        raise AlreadyExistsError(f"a principal or role has the name {name}; choose another name")


def _find_object(reading: CatalogReader, on: str) -> _Object:
    """Return the namespace, table or view with a name; an alias stands for its target."""
    named = parse_named_argument(on)
    if isinstance(named, NamespaceLocator):
        locator, namespace = find_namespace(reading, named)
        return _Object(Kind.NAMESPACE, namespace.id, name=str(locator))
    found: TableLocator | ViewLocator
    value: TableEntry | ViewEntry | None
    found, value = locate_view(reading, ViewLocator(named.namespace, named.name))
    if value is None:
        found, value = locate_table(reading, named)
    if value is None:
        found, value = find_table(reading, named)
    return _Object(found.kind, value.id, find_namespace(reading, found.parent)[1].id, str(found))


def _load_names(reading: CatalogReader) -> dict[str, str]:
    """Return the names of all namespaces, tables and views by id."""
    names: dict[str, str] = {}
    for space, namespace in list(reading.children(Kind.NAMESPACE, None)):
        assert isinstance(space, NamespaceLocator)
        assert isinstance(namespace, NamespaceEntry)
        names[namespace.id] = str(space)
        for kind in (Kind.TABLE, Kind.VIEW):
            for locator, value in reading.children(kind, space):
                if isinstance(value, TableEntry | ViewEntry):
                    names[value.id] = str(locator)
    return names
