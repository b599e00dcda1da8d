"""Settings of the Iceberg REST catalog that a server is started with."""

from dataclasses import dataclass

from mangrove.rest.delegation import AccessDelegation

__all__ = ["RestSettings"]


@dataclass(frozen=True, slots=True)
class RestSettings:
    """The names under which clients find the newest version, and how they get access to files."""

    warehouses: tuple[str, ...] = ()
    delegation: AccessDelegation | None = None
