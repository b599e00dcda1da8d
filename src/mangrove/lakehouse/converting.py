"""Conversion into any layout, as people ask for it: by a URI, the name of a layout, and how much of the past."""

from enum import Enum
from typing import TypedDict, TypeVar, Unpack, cast

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.layouts import LAYOUTS, READ_BY_DELTACAT, create_laid_out, open_laid_out
from mangrove.lakehouse.upkeep_engines import UpkeepEngines
from mangrove.maintenance.convert import ConvertReport, DataMode, History, convert
from mangrove.maintenance.convert_retelling import Kept, Place
from mangrove.maintenance.maintained import Maintained
from mangrove.maintenance.progress import Watch, unwatched
from mangrove.metastore import Changes
from mangrove.model.settings import READABLE_BY_DELTACAT, LakehouseSettings
from mangrove.storage.port import Store

__all__ = ["ConvertOptions", "convert_lake", "other_layout", "place_at"]

Chosen = TypeVar("Chosen", bound=Enum)


class ConvertOptions(TypedDict, total=False):
    """How a lakehouse is converted, where it is not as usual."""

    history: History | str
    """All versions, or the newest alone."""
    data: DataMode | str
    """Whether data files are copied, or named where they are."""
    watch: Watch


def convert_lake(
    source: Maintained,
    store: Store,
    layout: str,
    engines: UpkeepEngines,
    **options: Unpack[ConvertOptions],
) -> ConvertReport:
    """Convert a lakehouse to another place; what was asked for is checked before anything is written.

    The engines copy the files, and count the rows of each of them at the end.
    """
    history = _chosen(options.get("history", History.ALL), History, "history")
    data = _chosen(options.get("data", DataMode.COPY), DataMode, "data")
    if layout not in LAYOUTS:
        raise InvalidInputError(f"{layout!r} is no layout: use one of {', '.join(LAYOUTS)}")
    return convert(
        source,
        place_at(store, layout),
        history=history,
        data=data,
        copier=engines.copy_files,
        count_rows=engines.count_rows_there,
        watch=options.get("watch", unwatched),
    )


def other_layout(layout: str) -> str:
    """Return the layout that a lakehouse of this one is converted into where nobody says which.

    >>> other_layout("tree"), other_layout("deltacat")
    ('deltacat', 'tree')
    """
    return "deltacat" if layout == "tree" else "tree"


def place_at(store: Store, layout: str) -> Place:
    """Return how a lakehouse of a layout is made and opened on a store."""

    def made(effects: Effects, settings: LakehouseSettings, changes: Changes) -> Kept:
        return cast(Kept, create_laid_out(effects, layout, settings, changes).metastore)

    def opened(effects: Effects) -> Kept | None:
        try:
            return cast(Kept, open_laid_out(effects).metastore)
        except NotFoundError:
            return None

    refused = frozenset() if layout == READ_BY_DELTACAT else frozenset({READABLE_BY_DELTACAT})
    return Place(store, layout, layout.startswith("deltacat"), refused, made, opened)


def _chosen(given: Chosen | str, kind: type[Chosen], what: str) -> Chosen:
    try:
        return kind(given)
    except ValueError:
        raise InvalidInputError(f"{given!r} is no {what}: use {' or '.join(one.value for one in kind)}") from None
