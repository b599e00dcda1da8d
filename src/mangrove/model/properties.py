"""Immutable, hashable mappings for object properties."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from mangrove.errors import InvalidInputError
from mangrove.model.names import check_text

__all__ = ["NO_PROPERTIES", "FrozenMapping", "Properties"]

Key = TypeVar("Key")
Value_co = TypeVar("Value_co", covariant=True)


class FrozenMapping(Mapping[Key, Value_co]):
    """A mapping that nobody can change; it iterates in order of its keys.

    The order is fixed so that the same entries give the same bytes on storage.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[Key, Value_co]) -> None:
        ordered: Any = entries
        self._entries: dict[Key, Value_co] = dict(sorted(ordered.items()))

    def __getitem__(self, key: Key) -> Value_co:
        return self._entries[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(tuple(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


class Properties(FrozenMapping[str, str]):
    """Free text by key, as users and other programs attach it to objects."""

    __slots__ = ()

    def __init__(self, entries: Mapping[str, str]) -> None:
        if not isinstance(entries, Mapping):
            raise InvalidInputError(f"properties were given as {entries!r}: give a mapping from text to text")
        for key, value in entries.items():
            if not isinstance(key, str) or not key:
                raise InvalidInputError(f"a property has the key {key!r}: a key is text of at least one character")
            check_text(key, "a property's key")
            check_text(value, f"property {key!r}")
        super().__init__(entries)


NO_PROPERTIES: Final = Properties({})
