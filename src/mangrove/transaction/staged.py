"""The overlay of a transaction: what it put and deleted, laid over what a version holds."""

from collections.abc import Iterable, Iterator

from mangrove.metastore import Parent
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Object

__all__ = ["Staged", "merged"]


class Staged:
    """What was put, by the locators that this transaction uses, and what was deleted, by those of the version.

    They differ where the transaction renamed a namespace. A put hides what the
    version has in its place.
    """

    def __init__(self) -> None:
        self.puts: dict[Locator, Object] = {}
        self.deletes: set[Locator] = set()
        self._below: dict[tuple[Kind, Parent], set[Locator]] = {}

    def put(self, locator: Locator, value: Object) -> None:
        """Lay the object over whatever is there."""
        self.puts[locator] = value
        self._below.setdefault((locator.kind, locator.parent), set()).add(locator)

    def withdraw(self, locator: Locator) -> None:
        """Forget what was put there, so that the version shows through again."""
        if self.puts.pop(locator, None) is not None:
            self._below[locator.kind, locator.parent].discard(locator)

    def copied(self) -> "Staged":
        """Return what was put and deleted so far; what comes later changes only one of the two."""
        copy = Staged()
        copy.puts, copy.deletes = dict(self.puts), set(self.deletes)
        copy._below = {place: set(locators) for place, locators in self._below.items()}
        return copy

    def below(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> list[tuple[Locator, Object]]:
        """Return what was put of a kind below a parent, in order."""
        found = self._below.get((kind, parent), set())
        matching = sorted(
            locator
            for locator in found
            if (not prefix or str(locator.parts[-1]).startswith(prefix)) and (after is None or locator > after)
        )
        return [(locator, self.puts[locator]) for locator in matching]


def merged(
    there: Iterable[tuple[Locator, Object]], put: Iterable[tuple[Locator, Object]]
) -> Iterator[tuple[Locator, Object]]:
    """Yield both in order, `put` in the place of what is there under the same locator.

    Both are ordered, and lie below the same parent.
    """
    waiting = iter(put)
    following = next(waiting, None)
    for locator, value in there:
        while following is not None and following[0] < locator:
            yield following
            following = next(waiting, None)
        if following is not None and following[0] == locator:
            yield following
            following = next(waiting, None)
        else:
            yield locator, value
    if following is not None:
        yield following
    yield from waiting
