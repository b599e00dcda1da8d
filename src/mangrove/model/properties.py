"""Immutable, hashable mappings for object properties."""

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, Final, TypeVar

from mangrove.errors import InvalidInputError
from mangrove.model.names import check_text

__all__ = ["NO_PROPERTIES", "FrozenMapping", "Properties", "freeze_mapping"]

Key = TypeVar("Key")
Value_co = TypeVar("Value_co", covariant=True)


class FrozenMapping(Mapping[Key, Value_co]):
    """An immutable mapping that iterates in key order.

    The order is fixed so that equal mappings have equal bytes on storage.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[Key, Value_co]) -> None:
        ordered: Any = entries
        self._entries: dict[Key, Value_co] = dict(sorted(ordered.items()))

    def __getitem__(self, key: Key) -> Value_co:
        return self._entries[key]

    # The methods of `Mapping` are written in Python and raise an error for each missing key.
    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return self._entries.get(key, default)

    def items(self) -> ItemsView[Key, Value_co]:
        """Return the entries in key order."""
        return self._entries.items()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(tuple(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


class Properties(FrozenMapping[str, str]):
    """Free key-value strings that users and other programs attach to objects."""

    __slots__ = ()

    def __init__(self, entries: Mapping[str, str]) -> None:
        if not isinstance(entries, Mapping):
            raise InvalidInputError(f"invalid properties {entries!r}; expected a mapping from strings to strings")
        for key, value in entries.items():
            if not isinstance(key, str) or not key:
                raise InvalidInputError(f"a property has the invalid key {key!r}; expected a non-empty string")
            check_text(key, "a property's key")
            check_text(value, f"property {key!r}")
        super().__init__(entries)


NO_PROPERTIES: Final = Properties({})


def freeze_mapping(entries: Mapping[str, str]) -> Properties:
    """Return the entries as properties; most objects have none."""
    if isinstance(entries, Properties):
        return entries
    return NO_PROPERTIES if isinstance(entries, Mapping) and not entries else Properties(entries)
