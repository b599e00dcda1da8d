"""Under which name a namespace's tables are filed, once the namespace has another name.

The tree key of a table starts with its namespace's name. Were it always the
present name, renaming a namespace would write every table in it anew. So a
namespace keeps the name that it had when it was made as its *key name*, and the
root says which namespaces go by another name now: as many as were ever renamed,
usually none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mangrove.errors import FormatError

__all__ = ["KeyNames"]


@dataclass(frozen=True, slots=True)
class KeyNames:
    """The key name of each namespace that has another name now."""

    renamed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def key_name_of(self, name: str) -> str | None:
        """Return the name under which the tables of the namespace `name` are filed.

        None means that there is no such namespace: the name was left behind by one
        that still files its tables under it.
        """
        found = self.renamed.get(name)
        return name if found is None and name not in self.renamed.values() else found

    def name_filed_under(self, key_name: str) -> str | None:
        """Return the present name of the namespace whose tables are filed under `key_name`; None if there is none."""
        for name, filed in self.renamed.items():
            if filed == key_name:
                return name
        return None if key_name in self.renamed else key_name

    def after(self, before: Mapping[str, str], now: Mapping[str, str], bytes_max: int) -> "KeyNames":
        """Return the key names after a transaction.

        `before` and `now` hold the ids of the namespaces that it wrote or deleted, by
        their names then and now. A namespace that is new under a name which still
        files another's tables is given its id as key name.
        """
        former = {namespace_id: name for name, namespace_id in before.items()}
        renamed = {name: key for name, key in self.renamed.items() if name not in before and name not in now}
        for name, namespace_id in now.items():
            if namespace_id in former:
                renamed[name] = self.key_name_of(former[namespace_id]) or former[namespace_id]
        for name, namespace_id in now.items():
            if namespace_id not in former:
                renamed[name] = _unused(name, namespace_id, set(renamed.values()), bytes_max)
        return KeyNames(MappingProxyType({name: key for name, key in sorted(renamed.items()) if name != key}))

    def encode(self) -> str:
        """Return the text of the root's system row; empty where no namespace was renamed."""
        return json.dumps(dict(self.renamed), ensure_ascii=False, separators=(",", ":")) if self.renamed else ""

    @staticmethod
    def decode(text: str, path: str) -> "KeyNames":
        """Return what the system row of the root at `path` says."""
        if not text:
            return KeyNames()
        try:
            renamed = json.loads(text)
        except ValueError as error:
            raise FormatError(f"{path}: its list of renamed namespaces is not JSON ({error})") from error
        if not isinstance(renamed, dict) or not all(isinstance(key, str) for key in renamed.values()):
            raise FormatError(f"{path}: its list of renamed namespaces does not map names to names")
        return KeyNames(MappingProxyType(renamed))


def _unused(name: str, namespace_id: str, taken: set[str], bytes_max: int) -> str:
    """Return `name` if no other namespace's tables are filed under it, else the like of its id."""
    for candidate in (name, namespace_id.encode()[:bytes_max].decode(errors="ignore")):
        if candidate not in taken:
            return candidate
    for number in range(len(taken) + 1):
        candidate = f"{number}"[-bytes_max:]
        if candidate not in taken:
            return candidate
    raise FormatError(f"no key name of {bytes_max} bytes is left for the namespace {name!r}")
