"""Layout detection and the creation of a lakehouse in a given layout."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.layouts.deltacat.metastore import create_catalog, has_catalog, open_catalog
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED
from mangrove.layouts.tree.metastore import create_tree, open_tree
from mangrove.layouts.tree.revision import NEWER, OLDER
from mangrove.layouts.tree.versions import find_root_names
from mangrove.metastore import Changes, Metastore
from mangrove.model.settings import READABLE_BY_DELTACAT, STRICT_TREE, LakehouseSettings

__all__ = [
    "COMPATIBLE_WITH",
    "DELTACAT_READABLE_LAYOUT",
    "LAYOUTS",
    "OpenedLayout",
    "create_layout",
    "open_layout",
    "resolve_strictness",
]

LAYOUTS: Final = ("tree", "tree-older", "deltacat", "deltacat-2")
"""Accepted values of `layout`: a layout, some with their other format revision."""
_TREE: Final = "tree"
_DELTACAT: Final = "deltacat"
DELTACAT_READABLE_LAYOUT: Final = "deltacat-2"
"""The layout in DeltaCAT's own format."""
_TREE_LAYOUTS: Final = ("tree", "tree-older")
_STRICT_LAYOUTS: Final = frozenset({"tree-older"})
"""Layouts that are strict trees by default."""


COMPATIBLE_WITH: Final = ("deltacat",)
"""Programs with which a lakehouse can be kept compatible."""


@dataclass(frozen=True, slots=True)
class OpenedLayout:
    """The versions of a lakehouse, its location, and the name of its layout."""

    uri: str
    layout: str
    metastore: Metastore


def resolve_strictness(layout: str, strict: bool | None) -> bool:
    """Return whether a new lakehouse of this layout is a strict tree; None selects the default of the layout.

    >>> resolve_strictness("tree", None), resolve_strictness("tree", True), resolve_strictness("tree-older", None)
    (False, True, True)
    """
    if strict and layout not in _TREE_LAYOUTS:
        raise InvalidInputError(
            f"the layout {layout} cannot be strict: only {' and '.join(_TREE_LAYOUTS)} have extensions to leave out"
        )
    return layout in _STRICT_LAYOUTS if strict is None else strict


def create_layout(effects: Effects, layout: str, settings: LakehouseSettings, changes: Changes) -> OpenedLayout:
    """Create a lakehouse in the given layout in a location that has none."""
    makers: dict[str, tuple[str, Callable[[], Metastore]]] = {
        "tree": (_TREE, lambda: create_tree(effects, settings, changes, NEWER)),
        "tree-older": (_TREE, lambda: create_tree(effects, settings, changes, OLDER)),
        "deltacat": (_DELTACAT, lambda: create_catalog(effects, settings, changes, SEED)),
        "deltacat-2": (_DELTACAT, lambda: create_catalog(effects, settings, changes, DELTACAT_2)),
    }
    if layout not in makers:
        raise InvalidInputError(f"unknown layout {layout!r}; expected one of {', '.join(LAYOUTS)}")
    if READABLE_BY_DELTACAT in settings.properties and layout != DELTACAT_READABLE_LAYOUT:
        raise InvalidInputError(
            f"the property {READABLE_BY_DELTACAT} is for the layout {DELTACAT_READABLE_LAYOUT} alone, "
            "because DeltaCAT does "
            f"not read {layout}: leave it out, or make that layout"
        )
    if STRICT_TREE in settings.properties and layout not in _TREE_LAYOUTS:
        raise InvalidInputError(f"the property {STRICT_TREE} is for {' and '.join(_TREE_LAYOUTS)} only; leave it out")
    name, make = makers[layout]
    is_other_there = has_catalog(effects.store) if name == _TREE else find_root_names(effects.store) is not None
    if is_other_there:
        raise AlreadyExistsError(
            f"there is a lakehouse at {effects.store.uri} already, in the other layout: "
            "open it, or choose another place for a new one"
        )
    return OpenedLayout(effects.store.uri, name, make())


def open_layout(effects: Effects) -> OpenedLayout:
    """Open an existing lakehouse of any layout and format revision."""
    try:
        return OpenedLayout(effects.store.uri, _TREE, open_tree(effects))
    except NotFoundError:
        if has_catalog(effects.store):
            return OpenedLayout(effects.store.uri, _DELTACAT, open_catalog(effects))
        raise
