"""The command that names a version and copies it to another place."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from mangrove.cli.command import lake_command
from mangrove.cli.session import Session
from mangrove.cli.upkeep import engine_option, upkeep_engines
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.upkeep_engines import UpkeepEngines
from mangrove.maintenance.export import ExportMode, drop_export, export, pin

__all__ = ["export_command"]


@lake_command(
    "export",
    "mangrove export ./lake year-end --to s3://archive/lake\n"
    "mangrove export ./lake before-migration --at 41     # only a name\n"
    "mangrove export ./lake year-end --drop",
)
@click.argument("name")
@click.option(
    "--to", "destination", metavar="URI", help="Where the copy goes; without it the version only gets a name."
)
@click.option("--at", metavar="WHEN", help="Which version: a number or a time.  [default: the newest]")
@click.option(
    "--mode", type=click.Choice([mode.value for mode in ExportMode]), default="full", show_default=True,
    help="How much is copied.",
)  # fmt: skip
@click.option("--table", "tables", multiple=True, help="A table or namespace of a partial export.")
@click.option("--no-keep", is_flag=True, help="Write nothing to the lakehouse: no name keeps the version.")
@engine_option("copies files")
@click.option("--drop", is_flag=True, help="Forget the name, so that its version may expire.")
def export_command(
    session: Session, lake: str, name: str, destination: str | None, at: str | None, mode: str, tables: Sequence[str],
    engine: str | None, no_keep: bool, drop: bool,
) -> None:  # fmt: skip
    """Give a version a name that keeps it, and copy it to another place with --to."""
    if drop and (destination or at or tables):
        raise InvalidInputError("--drop forgets a name and copies nothing: give the name alone")
    if no_keep and destination is None:
        raise InvalidInputError("--no-keep copies and gives no name: say --to where")
    opened = session.open(lake, upkeep_engines(session, engine))
    kept = opened.maintained()
    if drop:
        dropped = drop_export(kept, name)
        session.answer({"dropped": asdict(dropped)}, lambda: f"the export {dropped} is forgotten")
        return
    version = None if at is None else opened.snapshot_at(at).version
    if destination is None:
        pinned = pin(kept, name, version)
        session.answer(
            {"export": asdict(pinned)}, lambda: f"version {pinned.version} is called {name} and will be kept"
        )
        return
    with session.watching("exporting") as watch:
        report = export(
            kept,
            session.store(destination),
            name,
            version=version,
            mode=ExportMode(mode),
            tables=tables,
            keep=not no_keep,
            copier=UpkeepEngines(opened.engines, engine, session.storage_options).copy_files,
            watch=watch,
        )
    session.answer({**asdict(report), "mode": report.mode.value}, lambda: str(report))
