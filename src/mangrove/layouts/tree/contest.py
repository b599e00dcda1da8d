"""Deciding whether a transaction can follow a rival's that committed first."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from mangrove.betree.spans import Spans, spans_of
from mangrove.layouts.tree.key_names import KeyNames
from mangrove.layouts.tree.keys import KeyEncoding, KeyRange, NameSizes, parts_of_locator
from mangrove.metastore import Changes, Isolation, Scan
from mangrove.model.locators import Kind, Locator, NamespaceLocator, TableIdentity, TableLocator, ViewLocator

__all__ = ["Footprint", "Keys", "footprint_of"]


@dataclass(frozen=True, slots=True)
class Keys:
    """How locators become tree keys in one version of one lakehouse."""

    encoding: KeyEncoding
    sizes: NameSizes
    names: KeyNames

    def key_of(self, locator: Locator) -> str:
        """Return the object's tree key; for what lies in no namespace that exists, a text that is no tree key."""
        filed: str | None = None
        if isinstance(locator, TableLocator | ViewLocator):
            filed = self.names.key_name_of(locator.namespace)
            if filed is None:
                return f"\0{locator.kind.word} {locator}"
        kind, parts = parts_of_locator(locator, filed)
        return self.encoding.key_of(kind, parts, self.sizes)

    def said_of(self, key: str) -> str:
        """Return what people would call the object with this tree key."""
        kind, parts = self.encoding.parts_of(key, self.sizes)
        names = [str(part) for part in parts]
        if kind in (Kind.TABLE, Kind.VIEW):
            names[0] = next((name for name, filed in self.names.renamed.items() if filed == names[0]), names[0])
        return f"{kind.word} {'.'.join(names)}"

    def range_of(self, scan: Scan, after: Locator | None = None) -> KeyRange:
        """Return where the tree keys of what a scan covers lie."""
        parent: tuple[str | int, ...]
        match scan.parent:
            case None:
                parent = ()
            case NamespaceLocator(name):
                filed = self.names.key_name_of(name)
                if filed is None:
                    return KeyRange("", "")
                parent = (filed,)
            case TableIdentity(_, table_id):
                parent = (table_id,)
            case below:
                parent = parts_of_locator(below).parts
        last_part = None if after is None else after.parts[-1]
        return self.encoding.range_below(scan.kind, parent, self.sizes, name_prefix=scan.prefix, after=last_part)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What must be untouched for a transaction to follow others: single keys, and ranges of each kind."""

    keys: frozenset[str]
    ranges: Mapping[Kind, Spans]

    def touched_by(self, written: Iterable[str], keys: Keys) -> list[str]:
        """Return those of the keys that a rival wrote which stand in the way."""
        return [key for key in written if key in self.keys or self._covers(key, keys)]

    def _covers(self, key: str, keys: Keys) -> bool:
        return any(
            spans.hold(key) and keys.encoding.is_of_kind(key, kind, keys.sizes) for kind, spans in self.ranges.items()
        )


def footprint_of(
    changes: Changes, isolation: Isolation, keys: Keys, commuting: Set[Locator] = frozenset()
) -> Footprint:
    """Return what the isolation asks to be untouched: new deltas commute, so their own keys are not part of it."""
    single, scans = changes.untouched(isolation, commuting)
    ranges: dict[Kind, list[KeyRange]] = {}
    for scan in scans:
        ranges.setdefault(scan.kind, []).append(keys.range_of(scan))
    return Footprint(
        frozenset(keys.key_of(locator) for locator in single),
        {kind: spans_of(found) for kind, found in ranges.items()},
    )
