"""Access rules: principals, roles and grants, and the rights of a principal that follow from them.

The rules are one property of the lakehouse, so each version has them and both layouts store them.
A grant names its object by id: it follows a rename, and a new object with the same name has no grants.
Tokens are random and have 244 bits, so a fast hash is enough: nobody can try them all.
"""

import enum
import hashlib
import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.model.locators import Kind
from mangrove.model.properties import FrozenMapping
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "ACCESS_PROPERTY",
    "AccessRules",
    "Grant",
    "Principal",
    "Privilege",
    "Rights",
    "TokenIdentity",
    "check_principal_name",
    "decode_rules",
    "hash_token",
    "is_principal_name",
    "load_rules",
    "parse_privilege",
    "store_rules",
    "strip_rules",
]

ACCESS_PROPERTY: Final = "mangrove.access"
"""The lakehouse property with the access rules as JSON; only `lake.access`, `mangrove access` and GRANT change it."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}")
_KINDS: Final = (Kind.LAKEHOUSE, Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)


class Privilege(enum.IntEnum):
    """What a principal may do; each privilege includes those below it."""

    NONE = 0
    READ = 1
    WRITE = 2
    MANAGE = 3

    @property
    def word(self) -> str:
        """The name in statements and messages."""
        return self.name.lower()


def parse_privilege(text: str) -> Privilege:
    """Return the privilege with a name.

    >>> parse_privilege("Read")
    <Privilege.READ: 1>
    """
    words = {one.word: one for one in Privilege if one is not Privilege.NONE}
    if not isinstance(text, str) or text.lower() not in words:
        raise InvalidInputError(f"unknown privilege {text!r}; expected {', '.join(words)}")
    return words[text.lower()]


def check_principal_name(name: str) -> str:
    """Return the name of a principal or role, or raise an error."""
    if not isinstance(name, str) or not is_principal_name(name):
        raise InvalidInputError(
            f"invalid name {name!r} of a principal or role; expected 1 to 100 letters, digits or _ . @ + -"
        )
    return name


def is_principal_name(text: str) -> bool:
    """Return whether a principal or role can have this name."""
    return _NAME.fullmatch(text) is not None


def hash_token(token: str) -> str:
    """Return the digest of a token, which is what the rules contain."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class Principal:
    """A user or service with a token and roles."""

    name: str
    token_digest: str = field(repr=False)
    roles: tuple[str, ...] = ()
    claimed_roles: frozenset[str] = frozenset()
    """The roles in its identity token, which are not stored."""


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """Whom an identity token names, with the roles that it claims."""

    principal: str
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """A privilege of a principal or role on the lakehouse, a namespace, a table or a view."""

    grantee: str
    privilege: Privilege
    kind: Kind
    id: str = ""
    """The id of the object; empty for the lakehouse."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The privileges of one principal; those on a namespace hold for everything in it."""

    principal: str
    lakehouse: Privilege = Privilege.NONE
    namespaces: Mapping[str, Privilege] = field(default_factory=lambda: FrozenMapping[str, Privilege]({}))
    objects: Mapping[str, Privilege] = field(default_factory=lambda: FrozenMapping[str, Privilege]({}))
    """Those on single tables and views, by their ids."""
    claimed_roles: frozenset[str] = frozenset()
    """The roles in the identity token of the principal, with which its rights are computed again."""

    def on_namespace(self, namespace_id: str | None) -> Privilege:
        """Return the privilege on a namespace; None is a namespace that does not exist."""
        return max(self.lakehouse, self.namespaces.get(namespace_id or "", Privilege.NONE))

    def on_object(self, namespace_id: str | None, object_id: str) -> Privilege:
        """Return the privilege on a table or view in a namespace."""
        return max(self.on_namespace(namespace_id), self.objects.get(object_id, Privilege.NONE))


@dataclass(frozen=True, slots=True)
class AccessRules:
    """All principals, roles and grants of a lakehouse."""

    principals: Mapping[str, Principal] = field(default_factory=lambda: FrozenMapping[str, Principal]({}))
    roles: frozenset[str] = frozenset()
    grants: frozenset[Grant] = frozenset()

    def principal(self, name: str) -> Principal:
        """Return a principal by name."""
        if name not in self.principals:
            raise NotFoundError(f"principal {name} does not exist; create it with `mangrove access create-principal`")
        return self.principals[name]

    def with_principal(self, principal: Principal) -> "AccessRules":
        """Return the rules with a new or changed principal."""
        for role in principal.roles:
            self.check_role(role)
        return replace(self, principals=FrozenMapping({**self.principals, principal.name: principal}))

    def without(self, name: str) -> "AccessRules":
        """Return the rules without a principal or role and its grants."""
        kept = {
            one.name: replace(one, roles=tuple(role for role in one.roles if role != name))
            for one in self.principals.values()
            if one.name != name
        }
        grants = frozenset(one for one in self.grants if one.grantee != name)
        return AccessRules(FrozenMapping(kept), self.roles - {name}, grants)

    def check_role(self, name: str) -> None:
        """Raise an error if there is no such role."""
        if name not in self.roles:
            raise NotFoundError(f"role {name} does not exist; create it with `mangrove access create-role`")

    def check_grantee(self, name: str) -> None:
        """Raise an error if there is neither a principal nor a role with this name."""
        if name not in self.principals and name not in self.roles:
            raise NotFoundError(f"no principal or role has the name {name}; create it with `mangrove access`")

    def find_by_token(self, token: str) -> Principal | None:
        """Return the principal with this token.

        The time of the comparison reveals at most a part of the digest, from which no token follows.
        """
        digest = hash_token(token)
        return next((one for one in self.principals.values() if one.token_digest == digest), None)

    def with_identity(self, identity: TokenIdentity, token: str) -> "AccessRules":
        """Return the rules for a request with a verified identity token, which is then a token of the principal.

        The principal need not exist: it then has only the roles in its token. It cannot have the name of a role.
        """
        if identity.principal in self.roles:
            return self
        stored = self.principals.get(identity.principal)
        roles = () if stored is None else stored.roles
        principal = Principal(identity.principal, hash_token(token), roles, identity.roles)
        return replace(self, principals=FrozenMapping({**self.principals, principal.name: principal}))

    def rights_of(self, name: str, claimed_roles: Set[str] = frozenset()) -> Rights:
        """Return the rights of a principal: those granted to it and to its roles.

        Roles that an identity token claims count if they exist. An unknown principal has only those.
        """
        principal = self.principals.get(name)
        claimed = frozenset(claimed_roles) | (frozenset() if principal is None else principal.claimed_roles)
        grantees = {*(() if principal is None else (name, *principal.roles)), *(claimed & self.roles)}
        lakehouse = Privilege.NONE
        namespaces: dict[str, Privilege] = {}
        objects: dict[str, Privilege] = {}
        for grant in self.grants:
            if grant.grantee not in grantees:
                continue
            if grant.kind is Kind.LAKEHOUSE:
                lakehouse = max(lakehouse, grant.privilege)
            else:
                where = namespaces if grant.kind is Kind.NAMESPACE else objects
                where[grant.id] = max(where.get(grant.id, Privilege.NONE), grant.privilege)
        return Rights(name, lakehouse, FrozenMapping(namespaces), FrozenMapping(objects), claimed)

    def rights_again(self, rights: Rights) -> Rights:
        """Return the rights that these rules give to the principal of `rights`."""
        return self.rights_of(rights.principal, rights.claimed_roles)


def load_rules(settings: LakehouseSettings) -> AccessRules:
    """Return the access rules of a version."""
    text = settings.properties.get(ACCESS_PROPERTY)
    return AccessRules() if text is None else decode_rules(text)


def store_rules(settings: LakehouseSettings, rules: AccessRules) -> LakehouseSettings:
    """Return the settings with these access rules."""
    if rules == AccessRules():
        return strip_rules(settings)
    return replace(settings, properties={**settings.properties, ACCESS_PROPERTY: _encode_rules(rules)})


def strip_rules(settings: LakehouseSettings) -> LakehouseSettings:
    """Return the settings without access rules."""
    if ACCESS_PROPERTY not in settings.properties:
        return settings
    others = {name: text for name, text in settings.properties.items() if name != ACCESS_PROPERTY}
    return replace(settings, properties=others)


def _encode_rules(rules: AccessRules) -> str:
    document = {
        "principals": {
            one.name: {"token_sha256": one.token_digest, "roles": sorted(one.roles)}
            for one in sorted(rules.principals.values(), key=lambda one: one.name)
        },
        "roles": sorted(rules.roles),
        "grants": [[one.grantee, one.privilege.word, one.kind.word, one.id] for one in sorted(rules.grants)],
    }
    return json.dumps(document, separators=(",", ":"))


@lru_cache(maxsize=4)
def decode_rules(text: str) -> AccessRules:
    """Return the access rules in a property; each server request needs those of the newest version."""
    kinds = {kind.word: kind for kind in _KINDS}
    try:
        document: Any = json.loads(text)
        principals = {
            name: Principal(check_principal_name(name), str(one["token_sha256"]), tuple(one["roles"]))
            for name, one in document["principals"].items()
        }
        roles = frozenset(map(check_principal_name, document["roles"]))
        grants = frozenset(
            Grant(grantee, parse_privilege(word), kinds[kind], object_id)
            for grantee, word, kind, object_id in document["grants"]
        )
    except (ValueError, TypeError, KeyError, AttributeError, InvalidInputError) as error:
        raise FormatError(f"the lakehouse property {ACCESS_PROPERTY} has invalid access rules ({error!r})") from error
    return AccessRules(FrozenMapping(principals), roles, grants)
