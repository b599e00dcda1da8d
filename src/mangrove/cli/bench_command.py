"""The command that measures what a lakehouse costs on the store that is named, and leaves nothing behind."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.bench_measures import Measured, measures
from mangrove.cli.catalog import build_list_table
from mangrove.cli.command import LocalEngines, lake_command
from mangrove.cli.context import CommandContext
from mangrove.effects import wait_for_pending
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.maintenance.progress import Progress, format_bytes
from mangrove.model.json_codec import Json
from mangrove.storage.counting import CountingStore
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import parse_root_uri

__all__ = ["bench_command"]

_MEASURES = 8
_SETTLE_SECONDS_MAX = 10.0


@lake_command("bench", "mangrove bench\nmangrove bench s3://bucket/try --rows 1000000", takes_lake=False)
@click.argument("place", default=".", metavar="[PLACE]")
@click.option(
    "--rows", type=click.IntRange(1, 10_000_000), default=50_000, show_default=True, help="How many rows are written."
)
def bench_command(session: CommandContext, place: str, rows: int) -> None:
    """Measure what a lakehouse costs on a disk or bucket: times and requests.

    It works in a new folder below PLACE, and deletes it afterwards. The larger
    benchmarks are scripts of the repository: see `make bench`.
    """
    at_start = session.effects(place)
    made = _folders_to_make(at_start.store)
    new_id = at_start.new_id()
    effects = session.effects(f"{place.rstrip('/')}/mangrove-bench-{new_id}")
    store = CountingStore(effects.store)
    counted = replace(effects, store=store)
    found: list[Measured] = []
    try:
        lake = create_on_store(counted, engines=LocalEngines)
        with session.watching("measuring") as watch:
            for one in measures(lake, lambda: open_on_store(counted, engines=LocalEngines), store, rows):
                found.append(one)
                watch(Progress(f"measured: {one.what}", len(found), _MEASURES))
    finally:
        # The hint to the newest version is written in the background, and would come back after all is deleted.
        wait_for_pending(counted, _SETTLE_SECONDS_MAX)
        _delete_all(effects.store)
        _remove_empty(made)
    listed: list[Json] = [{**asdict(one), "rows_per_second": one.rows_per_second} for one in found]
    session.answer({"place": effects.store.uri, "measured": listed}, lambda: _view(found))


def _delete_all(store: Store) -> None:
    store.delete_many([entry.path for entry in store.list() if isinstance(entry, ObjectInfo)])
    root = parse_root_uri(store.uri)
    if root.scheme == "file":
        # A bucket has no folders; on disk those that are empty now would stay.
        shutil.rmtree(root.path, ignore_errors=True)


def _folders_to_make(store: Store) -> list[Path]:
    """Return the folders up to a place on disk that are not there yet, the deepest first."""
    root = parse_root_uri(store.uri)
    if root.scheme != "file":
        return []
    place = Path(root.path)
    return [folder for folder in (place, *place.parents) if not folder.exists()]


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return  # somebody else put something there meanwhile


def _view(found: Sequence[Measured]) -> RenderableType:
    table = build_list_table("what", "median ms", "requests", "read", "written", "rows/s")
    for column in table.columns[1:]:
        column.justify = "right"
    for one in found:
        speed = one.rows_per_second
        table.add_row(
            Text(one.what, style="cyan"),
            f"{one.median_millis:,.1f}",
            f"{one.requests_each:,.1f}",
            format_bytes(one.bytes_read),
            format_bytes(one.bytes_written),
            "" if speed is None else f"{speed:,.0f}",
        )
    note = "requests and bytes of one time each; --json has the slowest of several times too"
    return Group(table, Text(note, style="dim"))
