"""Naming what exists where something was named that does not."""

import difflib
from collections.abc import Iterator
from itertools import islice
from typing import Final

from mangrove.errors import NotFoundError
from mangrove.lakehouse.catalog import Catalog
from mangrove.model.names import joined_name, quoted_name

__all__ = ["did_you_mean", "known_names"]

_NAMES_MAX: Final = 2_000
_LIKENESS_MIN: Final = 0.8


def did_you_mean(catalog: Catalog, namespace: str, parts: tuple[str, ...]) -> str:
    """Return the end of a sentence that names what is most like a name, or says where to look."""
    asked = joined_name(*(parts if len(parts) > 1 else (namespace, *parts))).casefold()
    known = {name.casefold(): name for name in islice(known_names(catalog), _NAMES_MAX)}
    same = [name for folded, name in known.items() if folded.rpartition(".")[2] == parts[-1].casefold()]
    near = [known[folded] for folded in difflib.get_close_matches(asked, known, n=1, cutoff=_LIKENESS_MIN)]
    found = next(iter([*same, *near]), None)
    return _where_to_look(catalog, namespace, parts) if found is None else f"; did you mean {found}?"


def _where_to_look(catalog: Catalog, namespace: str, parts: tuple[str, ...]) -> str:
    if len(parts) > 2:
        return ": write namespace.table"
    inside = parts[0] if len(parts) > 1 else namespace
    if any(one.name == inside for one in catalog.namespaces()):
        return f": SHOW TABLES IN {quoted_name(inside)} tells what is there"
    return f", nor a namespace {quoted_name(inside)}: SHOW NAMESPACES tells what is there"


def known_names(catalog: Catalog) -> Iterator[str]:
    """Yield the names of all tables and views, namespace by namespace."""
    for namespace in catalog.namespaces():
        try:
            for table in catalog.tables(namespace.locator):
                yield str(table)
            for view in catalog.views(namespace.locator):
                yield str(view)
        except NotFoundError:
            # Dropped while we looked.
            continue
