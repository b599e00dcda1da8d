"""Name resolution for one statement in a catalog version, with suggestions for unknown names."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.sql_port import Arguments
from mangrove.model.canonical import is_named_by_ids, parse_canonical
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.names import join_name, quote_name, split_name
from mangrove.sql.parse.tokens import SqlName, build_error_at, tokenize
from mangrove.transaction.canonical_names import resolve_target
from mangrove.transaction.deltas import TableTarget, split_version
from mangrove.transaction.history import HistoryEntry

__all__ = [
    "NameResolver",
    "StatementSource",
    "expand_canonical",
    "is_canonical",
    "list_known_names",
    "qualify_name",
    "suggest_table_name",
]

_NAMES_MAX: Final = 2_000
_LIKENESS_MIN: Final = 0.8


def suggest_table_name(catalog: Catalog, namespace: str, parts: tuple[str, ...]) -> str:
    """Return the end of an error message with a similar name or a hint where to look."""
    requested = join_name(*(parts if len(parts) > 1 else (namespace, *parts))).casefold()
    known = {name.casefold(): name for name in islice(list_known_names(catalog), _NAMES_MAX)}
    same = [name for folded, name in known.items() if folded.rpartition(".")[2] == parts[-1].casefold()]
    near = [known[folded] for folded in difflib.get_close_matches(requested, known, n=1, cutoff=_LIKENESS_MIN)]
    closest = next(iter([*same, *near]), None)
    return _format_hint(catalog, namespace, parts) if closest is None else f"; did you mean {closest}?"


def _format_hint(catalog: Catalog, namespace: str, parts: tuple[str, ...]) -> str:
    if len(parts) > 2:
        return ": write namespace.table"
    inside = parts[0] if len(parts) > 1 else namespace
    if any(one.name == inside for one in catalog.namespaces()):
        return f"; run SHOW TABLES IN {quote_name(inside)} to list the tables"
    return f"; namespace {quote_name(inside)} does not exist either; run SHOW NAMESPACES to list them"


def list_known_names(catalog: Catalog) -> Iterator[str]:
    """Yield the names of all tables and views by namespace."""
    for namespace in catalog.namespaces():
        try:
            for table in catalog.tables(namespace.locator):
                yield str(table)
            for view in catalog.views(namespace.locator):
                yield str(view)
        except NotFoundError:
            # Dropped concurrently.
            continue


def is_canonical(parts: tuple[str, ...]) -> bool:
    """Return whether a name is a canonical string or locator in backticks; no part of another name contains a bar."""
    return len(parts) == 1 and "|" in parts[0]


def expand_canonical(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of a name; the canonical string of a table or view has the two parts of its dotted name.

    >>> expand_canonical(("shop|orders",)), expand_canonical(("shop|orders|1",))
    (('shop', 'orders'), ('shop|orders|1',))
    """
    found = parse_canonical(parts[0]) if is_canonical(parts) and not is_named_by_ids(parts[0]) else None
    return (
        parts if found is None or found.table is None or found.version is not None else (found.namespace, found.table)
    )


def qualify_name(name: str, namespace: str) -> str:
    """Return the full name or canonical string of a table that a text names, possibly without its namespace."""
    parts = () if "|" in name else split_name(name)
    return join_name(namespace, *parts) if len(parts) == 1 else name


_SUMMARY_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class StatementSource:
    """A statement as given: the script up to its end, its start, and its arguments."""

    text: str
    start: int
    arguments: Arguments = None

    @property
    def summary(self) -> str:
        """The message in the history."""
        plain = " ".join(self.text[self.start :].split())
        return plain if len(plain) <= _SUMMARY_MAX else plain[: _SUMMARY_MAX - 1] + "…"

    def find_argument(self, name: str | None, position: int) -> object:
        """Return the argument of the parameter at this position of the text; without a name it is positional."""
        given = self.arguments or ()
        if name is not None:
            named = given if isinstance(given, Mapping) else {}
            if name not in named:
                listed = ", ".join(named) or "none"
                raise build_error_at(
                    self.text, position, f"no argument for parameter {name!r}; given arguments: {listed}"
                )
            return named[name]
        values = () if isinstance(given, Mapping) else given
        before = tokenize(self.text, self.start)
        number = sum(1 for token in before if token.text == "?" and token.start < position)
        if number >= len(values):
            raise build_error_at(
                self.text, position, f"the statement has more parameters than the {len(values)} given arguments"
            )
        return values[number]


@dataclass(frozen=True, slots=True)
class NameResolver:
    """Resolves the names of a statement in one version or transaction."""

    catalog: Catalog
    at: Callable[[int | str], Catalog]
    history: Callable[[], Iterable[HistoryEntry]]
    namespace: str
    table_history: Callable[[TableLocator], Iterable[HistoryEntry]]
    new_id: Callable[[], str]
    text: str = ""
    """The statement for error positions, if it references several objects."""

    def pair(self, name: SqlName) -> tuple[str, str]:
        """Return the namespace and the name of a table or view."""
        parts = expand_canonical(name.parts)
        if len(parts) > 2:
            raise InvalidInputError(
                f"{'.'.join(parts)} has {len(parts)} parts; expected namespace.table, with backticks around "
                "a part that contains a dot"
            )
        if is_canonical(parts):
            named = resolve_target(self.catalog._reading(), parts[0])
            if named.kind is not Kind.TABLE:
                raise InvalidInputError(f"{parts[0]} names a {named.kind.word}; expected a table")
            return named.locator.namespace, named.locator.name
        return (self.namespace, parts[0]) if len(parts) == 1 else (parts[0], parts[1])

    def target(self, name: SqlName) -> TableTarget:
        """Return what a table name opens: a table, or with a third part such as `version_2` a version of it.

        A single part with a bar is a canonical string.
        """
        given = expand_canonical(name.parts)
        if is_canonical(given):
            return resolve_target(self.catalog._reading(), given[0])
        parts, version = split_version(given)
        return TableTarget(self.table(replace(name, parts=parts)), version)

    def table(self, name: SqlName) -> TableLocator:
        """Return the locator of a table name."""
        return TableLocator(*self.pair(name))

    def view(self, name: SqlName) -> ViewLocator:
        """Return the locator of a view name."""
        return ViewLocator(*self.pair(name))

    def view_at(self, locator: TableLocator) -> ViewLocator:
        """Return the view locator of the same name."""
        return ViewLocator(locator.namespace, locator.name)

    def namespace_of(self, name: SqlName | None) -> NamespaceLocator:
        """Return the namespace of a name; without a name, the current one."""
        if name is None:
            return NamespaceLocator(self.namespace)
        if len(name.parts) != 1:
            raise InvalidInputError(
                f"{'.'.join(name.parts)} has {len(name.parts)} parts; a namespace has one, in backticks if it "
                "contains a dot"
            )
        return NamespaceLocator(name.parts[0])
