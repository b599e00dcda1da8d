"""One request of a client: what it names, and the state of the lakehouse that it means."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.past import PastLakehouse
from mangrove.rest.warehouses import seen_at, version_of_prefix

__all__ = ["Asked", "Served"]

_ASKED_CHARACTERS_MAX: Final = 4_000
_DEPTH_MAX: Final = 200
"""Columns may lie 32 levels deep, and JSON takes three levels for each at most."""


@dataclass(frozen=True, slots=True)
class Served:
    """What every request is answered from."""

    lake: Lakehouse
    is_writable: bool = False
    is_secret: Callable[[str], bool] | None = field(default=None, repr=False)
    """Whether a text is the server's token; None where it asks for none."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request; anybody may have written it."""

    served: Served
    steps: Mapping[str, str]
    """What stands in the place of `{namespace}`, `{table}` and so on, decoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By their names in small letters."""
    body: bytes = b""

    def __post_init__(self) -> None:
        for name, value in (*self.steps.items(), *self.query.items()):
            if len(value) > _ASKED_CHARACTERS_MAX:
                raise InvalidInputError(
                    f"{name[:40]!r} has {len(value)} characters: {_ASKED_CHARACTERS_MAX} are allowed in an address"
                )

    @property
    def version(self) -> int | None:
        """The version that the address is about, or None for the newest."""
        prefix = self.steps.get("prefix")
        return None if prefix is None else version_of_prefix(prefix)

    def seen(self, version: int | None = None) -> PastLakehouse:
        """Return the state that is asked about, or a version that an earlier answer named."""
        of_address = self.version
        return seen_at(self.served.lake, version if of_address is None else of_address)

    def document(self) -> dict[str, Any]:
        """Return the JSON object that was sent."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"the body of the request is no JSON ({error}): send an object") from error
        if not isinstance(found, dict):
            raise InvalidInputError("the body of the request is no JSON object: send one")
        _check_depth(found)
        return found


def _check_depth(document: object) -> None:
    """Refuse what lies so deep that who reads it level by level would come to no end."""
    level = [document]
    for _ in range(_DEPTH_MAX):
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [*chain.from_iterable(inside)]
        if not level:
            return
    raise InvalidInputError(f"the body of the request has more than {_DEPTH_MAX} levels: nest less deeply")
