"""Maintenance commands: expire, vacuum, compact, check, upgrade-format, convert and export."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TypedDict, Unpack

import click
from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.command import author_option, choose_engines, engine_option, lake_command, message_option
from mangrove.cli.completion import offer_tables
from mangrove.cli.context import CommandContext
from mangrove.cli.listing import build_more_line, shorten_lines
from mangrove.errors import FormatError
from mangrove.lakehouse.catalog import compact_tables, list_managed_tables
from mangrove.lakehouse.checking import diagnose_open_failure
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.maintenance import MaintenanceEngines, convert_to_layout, default_target_layout
from mangrove.maintenance.check import CheckReport
from mangrove.maintenance.convert.conversion import ConvertReport, DataMode, HistoryMode
from mangrove.maintenance.export import ExportMode, export_version
from mangrove.maintenance.progress import format_bytes
from mangrove.maintenance.vacuum import VacuumReport
from mangrove.model.json_codec import Json
from mangrove.storage.probe import CreateProbeReport, probe_creates
from mangrove.tables.compaction import CompactionReport

__all__ = [
    "check_command",
    "compact_command",
    "compact_metadata_command",
    "convert_command",
    "expire_command",
    "export_command",
    "repair_clock_command",
    "upgrade_format_command",
    "vacuum_command",
]


class _Bounds(TypedDict):
    """Limits of compaction per table."""

    bytes_max: int | None
    files_max: int | None
    full: bool


_LISTED_PATHS_MAX = 20
_PROBE_THREADS, _PROBE_KEYS = 16, 50


@lake_command("expire", "mangrove expire ./lake --dry-run")
@click.option("--dry-run", is_flag=True, help="List the versions without expiring them.")
@click.option("--alone", is_flag=True, help="Assume no concurrent readers or writers.")
def expire_command(session: CommandContext, lake: str, dry_run: bool, alone: bool) -> None:
    """Expire versions that are past their retention; exported versions are kept.

    `mangrove vacuum` then deletes the files that only these versions needed.
    """
    opened = session.open(lake)
    with session.watching("expiring versions") as watch:
        report = opened.maintenance.expire(dry_run=dry_run, alone=alone, watch=watch)
    session.answer({**asdict(report), "versions": list(report.versions)}, lambda: str(report))


@lake_command("vacuum", "mangrove vacuum ./lake --dry-run\nmangrove vacuum ./lake --grace 3d")
@click.option("--dry-run", is_flag=True, help="List the files without deleting them.")
@click.option("--grace", metavar="DURATION", help="Grace period: keep younger files.  [default: 1d]")
@click.option("--alone", is_flag=True, help="Assume no concurrent writers and ignore the grace period.")
@engine_option("deletes files")
def vacuum_command(
    session: CommandContext, lake: str, dry_run: bool, grace: str | None, alone: bool, engine: str | None
) -> None:
    """Delete files that no version needs."""
    opened = session.open(lake, choose_engines(session, engine))
    with session.watching("listing unreferenced files") as watch:
        report = opened.maintenance.vacuum(dry_run=dry_run, grace=grace, alone=alone, engine=engine, watch=watch)
    session.answer({**asdict(report), "paths": list(report.paths)}, lambda: _vacuum_view(report))


@lake_command("compact", "mangrove compact ./lake sales.orders\nmangrove compact ./lake --files-max 100")
@click.argument("table", required=False, metavar="[TABLE]", shell_complete=offer_tables)
@click.option("--bytes-max", type=click.IntRange(min=1), metavar="N", help="Rewrite at most N bytes per table.")
@click.option("--files-max", type=click.IntRange(min=1), metavar="N", help="Rewrite at most N files per table.")
@click.option("--full", is_flag=True, help="Also rewrite large files, so that all rows are clustered.")
@engine_option("rewrites rows")
def compact_command(
    session: CommandContext, lake: str, table: str | None, engine: str | None, **bounds: Unpack[_Bounds]
) -> None:
    """Compact the data files of one table or of all tables.

    Each table that needs compaction is one commit. With a limit the oldest files are
    rewritten first; the rest is left to the next run.
    """
    if table is not None:
        _compact_table(session, lake, table, engine, bounds)
    else:
        _compact_all(session, lake, engine, bounds)


@lake_command("check", "mangrove check ./lake\nmangrove check s3://bucket/lake --store")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Check a sample of N versions.")
@click.option("--repair", is_flag=True, help="Repair what is safe to repair, then check.")
@click.option("--store", "probes", is_flag=True, help="Test that exactly one of many concurrent creates succeeds.")
@engine_option("counts the rows of data files")
def check_command(
    session: CommandContext, lake: str, sample: int | None, repair: bool, probes: bool, engine: str | None
) -> None:
    """Verify every file that the versions reference.

    The exit code is 1 if a problem is found. With --store the object store itself is
    tested instead, in a temporary folder.
    """
    if probes:
        _probe(session, lake)
        return
    with session.watching("checking") as watch:
        try:
            opened = session.open(lake, choose_engines(session, engine))
        except FormatError as error:
            report = diagnose_open_failure(session.effects(lake), error)
        else:
            report = opened.maintenance.check(sample=sample, repair=repair, engine=engine, watch=watch)
    session.answer(
        {**asdict(report), "versions": list(report.versions), "is_sound": report.is_sound}, lambda: _check_view(report)
    )
    if not report.is_sound:
        raise click.exceptions.Exit(1)


@lake_command("repair-clock", "mangrove repair-clock ./lake")
@message_option
@author_option
def repair_clock_command(session: CommandContext, lake: str, message: str, author: str) -> None:
    """Reset version timestamps after a commit from a wrong clock.

    Commits a copy of the newest version with the time of this machine. Earlier versions
    with a timestamp in the future then count as committed no later than it.
    """
    opened = session.open(lake)
    before = opened.version
    version = opened.maintenance.repair_clock(message=message, author=author)
    text = (
        f"version {version} has the time of this machine's clock"
        if version > before
        else f"the timestamp of version {version} is not in the future; nothing to repair"
    )
    session.answer({"version": version, "repaired": version > before}, lambda: text)


@lake_command("compact-metadata", "mangrove compact-metadata ./lake")
def compact_metadata_command(session: CommandContext, lake: str) -> None:
    """Compact the metadata of the newest version, in one commit.

    Useful after very many objects were dropped. Commits keep the metadata balanced otherwise.
    """
    opened = session.open(lake)
    with session.watching("compacting the metadata"):
        version = opened.maintenance.compact_metadata()
    session.answer({"version": version}, lambda: f"compacted the metadata in version {version}")


@lake_command("upgrade-format", "mangrove upgrade-format ./lake")
def upgrade_format_command(session: CommandContext, lake: str) -> None:
    """Upgrade a lakehouse to the newer format revision, in one commit."""
    opened = session.open(lake)
    before = opened.version
    with session.watching("upgrading"):
        version = opened.maintenance.upgrade_format()
    text = (
        f"upgraded to the newer format revision in version {version}"
        if version > before
        else "the lakehouse already has the newer format revision"
    )
    session.answer({"version": version, "upgraded": version > before}, lambda: text)


def _compact_table(session: CommandContext, lake: str, name: str, engine: str | None, bounds: _Bounds) -> None:
    opened = session.open(lake, choose_engines(session, engine))
    with session.watching(f"compacting {name}") as watch:
        report = opened.table(name).compact(engine=engine, watch=watch, **bounds)
    version = opened.version
    session.answer(
        {"version": version, "compacted": report.logs > 0, **asdict(report)},
        lambda: f"{_compact_text(name, report)}, as of version {version}",
    )


def _compact_all(session: CommandContext, lake: str, engine: str | None, bounds: _Bounds) -> None:
    opened = session.open(lake, choose_engines(session, engine))
    tables = list_managed_tables(opened)
    with session.watching("compacting tables") as watch:
        reports = compact_tables(tables, engine=engine, watch=watch, **bounds)
    version = opened.version
    lines = [_compact_text(name, report) for name, report in reports.items()]
    summary = f"compacted {len(reports):,} of {len(tables):,} tables, as of version {version}"
    session.answer(
        {
            "version": version,
            "tables": len(tables),
            "compacted": [*reports],
            "reports": {name: asdict(report) for name, report in reports.items()},
        },
        lambda: shorten_lines([*lines, summary]) if reports else f"none of {len(tables):,} tables needs compaction",
    )


def _compact_text(name: str, report: CompactionReport) -> str:
    if not report.logs:
        return f"{name} needs no compaction"
    left = f"; {report.files_left:,} files ({format_bytes(report.bytes_left)}) are left" if report.files_left else ""
    read = f"{report.files_read:,} files ({format_bytes(report.bytes_read)} of rows)"
    return f"{name}: {read} were compacted into {report.files_written:,}{left}"


def _probe(session: CommandContext, lake: str) -> None:
    folder = f"mangrove-probe-{session.effects(lake).new_id()}"
    with session.watching("testing exclusive creates"):
        report = probe_creates(session.store(lake), _PROBE_THREADS, _PROBE_KEYS, folder)
    session.answer({**asdict(report), "is_sound": report.is_sound}, lambda: _probe_text(report))
    if not report.is_sound:
        raise click.exceptions.Exit(1)


def _probe_text(report: CreateProbeReport) -> str:
    race = f"{report.threads} concurrent writers created each of {report.keys} keys"
    if report.is_sound:
        return f"{race}: exactly one succeeded each time; the store is safe for commits"
    wrong = f"{len(report.unfair)} had no winner or several, {len(report.misread)} do not hold what the winner wrote"
    return f"{race}: {wrong}; commits can be lost on this store, do not use it for a lakehouse"


def _vacuum_view(report: VacuumReport) -> RenderableType:
    paths = [Text(path, style="dim") for path in report.paths[:_LISTED_PATHS_MAX]]
    return Group(*paths, *build_more_line(len(report.paths) - len(paths)), Text(str(report)))


def _check_view(report: CheckReport) -> RenderableType:
    return Text(shorten_lines(str(report).splitlines()), style="green" if report.is_sound else "red")


@lake_command(
    "convert",
    "mangrove convert ./lake ./as-deltacat --layout deltacat\n"
    "mangrove convert s3://bucket/catalog ./lake --layout tree --history latest",
)
@click.argument("destination")
@click.option(
    "--layout",
    type=click.Choice(LAYOUTS),
    help="Target layout.  [default: the other one, or tree with --strict and --no-strict]",
)
@click.option(
    "--strict/--no-strict", default=None,
    help="Write only what the tree format describes.  [default: strict for tree-older]",
)  # fmt: skip
@click.option(
    "--history", type=click.Choice([one.value for one in HistoryMode]), default="all", show_default=True,
    help="Convert all versions, or only the newest one.",
)  # fmt: skip
@click.option(
    "--data", type=click.Choice([one.value for one in DataMode]), default="copy", show_default=True,
    help="Copy data files, or reference them at the source.",
)  # fmt: skip
@engine_option("copies files and counts their rows")
def convert_command(
    session: CommandContext, lake: str, destination: str, layout: str | None,
    strict: bool | None, history: str, data: str, engine: str | None,
) -> None:  # fmt: skip
    """Convert a lakehouse to another layout or format revision, at another location.

    Versions keep their messages, authors and timestamps. Run the command again to resume
    an interrupted conversion or to add new versions of the source. At the end both
    lakehouses are compared object by object, and the new one is checked.
    """
    opened = session.open(lake, choose_engines(session, engine))
    with session.watching("converting") as watch:
        report = convert_to_layout(
            opened.maintenance.context(),
            session.store(destination),
            layout or default_target_layout(opened.layout, strict),
            MaintenanceEngines(opened.engines, engine, session.storage_options),
            history=history,
            data=data,
            strict=strict,
            watch=watch,
        )
    session.answer(_report_json(report), lambda: str(report))
    if not report.is_sound:
        raise click.exceptions.Exit(1)


def _report_json(report: ConvertReport) -> Json:
    fields = asdict(report)
    comparison = {**fields["comparison"], "differences": list(report.comparison.differences)}
    return {
        **fields,
        "comparison": comparison,
        "problems": [asdict(problem) for problem in report.problems],
        "notes": list(report.notes),
        "is_sound": report.is_sound,
    }


@lake_command(
    "export",
    "mangrove export ./lake s3://archive/lake year-end\n"
    "mangrove export ./lake ./copy before-migration --at 41 --mode minimal\n"
    "mangrove tag ./lake year-end --drop   # the version may expire",
)
@click.argument("destination")
@click.argument("name")
@click.option("--at", metavar="WHEN", help="Version or timestamp to export.  [default: the newest version]")
@click.option(
    "--mode", type=click.Choice([mode.value for mode in ExportMode]), default="full", show_default=True,
    help="Amount of data to copy.",
)  # fmt: skip
@click.option("--table", "tables", multiple=True, help="Table or namespace of a partial export.")
@click.option("--no-keep", is_flag=True, help="Do not record the name; the version may expire.")
@engine_option("copies files")
def export_command(
    session: CommandContext, lake: str, destination: str, name: str, at: str | None, mode: str,
    tables: Sequence[str], engine: str | None, no_keep: bool,
) -> None:  # fmt: skip
    """Copy a version to another location and give it a name.

    The copy opens as a lakehouse of its own. The name protects the version from expiry;
    `mangrove tag` names a version without a copy, lists the names and removes them.
    """
    opened = session.open(lake, choose_engines(session, engine))
    with session.watching("exporting") as watch:
        report = export_version(
            opened.maintenance.context(),
            session.store(destination),
            name,
            version=None if at is None else opened._snapshot_at(at).version,
            mode=ExportMode(mode),
            tables=tables,
            keep=not no_keep,
            copier=MaintenanceEngines(opened.engines, engine, session.storage_options).copy_files,
            watch=watch,
        )
    session.answer({**asdict(report), "mode": report.mode.value}, lambda: str(report))
