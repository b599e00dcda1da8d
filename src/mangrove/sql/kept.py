"""What was made for earlier statements and still holds: states and frames of versions, which never change."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Kept"]

_ENTRIES_MAX: Final = 256


@dataclass
class Kept:
    """The things that were used last, by what they are made of."""

    _entries: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)

    def got(self, key: Hashable | None, make: Callable[[], Any]) -> Any:
        """Return what was made under this key, or make it; without a key, always make it."""
        if key is None:
            return make()
        if key not in self._entries:
            self._entries[key] = make()
        self._entries.move_to_end(key)
        while len(self._entries) > _ENTRIES_MAX:
            self._entries.popitem(last=False)
        return self._entries[key]
