"""Conflict detection on tree keys and key ranges, and the mapping of locators to keys."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from mangrove.betree.search import KeyRangeSet, merge_ranges
from mangrove.layouts.tree.keys import KeyEncoding, KeyNames, NameSizes, TreeKeyRange, parts_of_locator
from mangrove.metastore import Changes, Isolation, Scan
from mangrove.model.locators import Kind, Locator, NamespaceLocator, TableIdentity, TableLocator, ViewLocator

__all__ = ["LocatorKeyCodec", "TreeValidationSet", "build_validation_set"]


@dataclass(frozen=True, slots=True)
class LocatorKeyCodec:
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

    def describe_object(self, key: str) -> str:
        """Return what people would call the object with this tree key."""
        kind, parts = self.encoding.parts_of(key, self.sizes)
        names = [str(part) for part in parts]
        if kind in (Kind.TABLE, Kind.VIEW):
            names[0] = next((name for name, filed in self.names.renamed.items() if filed == names[0]), names[0])
        return f"{kind.word} {'.'.join(names)}"

    def range_of(self, scan: Scan, after: Locator | None = None) -> TreeKeyRange:
        """Return where the tree keys of what a scan covers lie."""
        parent: tuple[str | int, ...]
        match scan.parent:
            case None:
                parent = ()
            case NamespaceLocator(name):
                filed = self.names.key_name_of(name)
                if filed is None:
                    return TreeKeyRange("", "")
                parent = (filed,)
            case TableIdentity(_, table_id):
                parent = (table_id,)
            case below:
                parent = parts_of_locator(below).parts
        last_part = None if after is None else after.parts[-1]
        return self.encoding.range_below(scan.kind, parent, self.sizes, name_prefix=scan.prefix, after=last_part)


@dataclass(frozen=True, slots=True)
class TreeValidationSet:
    """What must be untouched for a transaction to follow others: single keys, and ranges of each kind."""

    keys: frozenset[str]
    ranges: Mapping[Kind, KeyRangeSet]

    def detect_conflicts(self, written: Iterable[str], keys: LocatorKeyCodec) -> list[str]:
        """Return those of the keys that a rival wrote which stand in the way."""
        return [key for key in written if key in self.keys or self._covers(key, keys)]

    def _covers(self, key: str, keys: LocatorKeyCodec) -> bool:
        return any(
            spans.contains(key) and keys.encoding.is_of_kind(key, kind, keys.sizes)
            for kind, spans in self.ranges.items()
        )


def build_validation_set(
    changes: Changes, isolation: Isolation, keys: LocatorKeyCodec, commuting: Set[Locator] = frozenset()
) -> TreeValidationSet:
    """Return what the isolation asks to be untouched: new deltas commute, so their own keys are not part of it."""
    single, scans = changes.targets_to_validate(isolation, commuting)
    ranges: dict[Kind, list[TreeKeyRange]] = {}
    for scan in scans:
        ranges.setdefault(scan.kind, []).append(keys.range_of(scan))
    return TreeValidationSet(
        frozenset(keys.key_of(locator) for locator in single),
        {kind: merge_ranges(found) for kind, found in ranges.items()},
    )
