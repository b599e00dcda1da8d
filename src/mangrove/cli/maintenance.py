"""Maintenance commands: expire, vacuum, compact, check, upgrade, convert and export."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, TypedDict, Unpack

import click
from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.command import choose_engines, engine_option, lake_command
from mangrove.cli.completion import offer_tables
from mangrove.cli.context import CommandContext
from mangrove.cli.listing import build_more_line, shorten_lines
from mangrove.errors import FormatError, InvalidInputError
from mangrove.lakehouse.catalog import compact_tables, list_managed_tables
from mangrove.lakehouse.checking import diagnose_open_failure
from mangrove.lakehouse.maintenance import MaintenanceEngines, convert_to_layout, default_target_layout
from mangrove.maintenance.check import CheckReport
from mangrove.maintenance.convert.conversion import ConvertReport, DataMode, HistoryMode
from mangrove.maintenance.export import ExportMode, drop_export, export_version, pin_version
from mangrove.maintenance.progress import format_bytes
from mangrove.maintenance.vacuum import VacuumReport
from mangrove.model.json_codec import Json
from mangrove.storage.probe import CreateProbeReport, probe_creates
from mangrove.tables.compaction import CompactionReport

__all__ = [
    "check_command",
    "compact_command",
    "convert_command",
    "expire_command",
    "export_command",
    "repair_clock_command",
    "resolve_layout_name",
    "upgrade_command",
    "vacuum_command",
]


class _Bounds(TypedDict):
    """How much of each table is compacted."""

    bytes_max: int | None
    files_max: int | None
    full: bool


_LISTED_PATHS_MAX = 20
_PROBE_THREADS, _PROBE_KEYS = 16, 50


@lake_command("expire", "mangrove expire ./lake --dry-run")
@click.option("--dry-run", is_flag=True, help="Only say which versions would go.")
@click.option("--alone", is_flag=True, help="Promise that nobody else reads or writes meanwhile.")
def expire_command(session: CommandContext, lake: str, dry_run: bool, alone: bool) -> None:
    """Forget versions that are older than the lakehouse keeps them; exports stay.

    What only they needed becomes garbage, which `mangrove vacuum` deletes.
    """
    opened = session.open(lake)
    with session.watching("expiring versions") as watch:
        report = opened.maintenance.expire(dry_run=dry_run, alone=alone, watch=watch)
    session.answer({**asdict(report), "versions": list(report.versions)}, lambda: str(report))


@lake_command("vacuum", "mangrove vacuum ./lake --dry-run\nmangrove vacuum ./lake --grace 3d")
@click.option("--dry-run", is_flag=True, help="Only say which files would go.")
@click.option("--grace", metavar="DURATION", help="Leave files that are younger than this.  [default: 1d]")
@click.option("--alone", is_flag=True, help="Promise that nobody else writes meanwhile: then age does not count.")
@engine_option("deletes")
def vacuum_command(
    session: CommandContext, lake: str, dry_run: bool, grace: str | None, alone: bool, engine: str | None
) -> None:
    """Delete the files that no version needs."""
    opened = session.open(lake, choose_engines(session, engine))
    with session.watching("looking for garbage") as watch:
        report = opened.maintenance.vacuum(dry_run=dry_run, grace=grace, alone=alone, engine=engine, watch=watch)
    session.answer({**asdict(report), "paths": list(report.paths)}, lambda: _vacuum_view(report))


@lake_command(
    "compact", "mangrove compact ./lake sales.orders\nmangrove compact ./lake\nmangrove compact ./lake --tree --stats"
)
@click.argument("table", required=False, metavar="[TABLE]", shell_complete=offer_tables)
@click.option("--tree", is_flag=True, help="The catalog's own tree instead of the rows of tables.")
@click.option("--bytes-max", type=click.IntRange(min=1), metavar="N", help="Write at most N bytes of a table again.")
@click.option("--files-max", type=click.IntRange(min=1), metavar="N", help="Write at most N files of a table again.")
@click.option("--full", is_flag=True, help="Write large files again too, so that all rows are clustered together.")
@engine_option("writes rows anew")
def compact_command(
    session: CommandContext, lake: str, table: str | None, tree: bool, engine: str | None, **bounds: Unpack[_Bounds]
) -> None:
    """Write the rows of a table anew, or of every table: the same content in fewer, fuller files.

    Each table is a commit of its own, and only where there is something to do. With a
    bound the oldest files come first, and the rest is left to the next time.
    """
    if tree:
        _compact_tree(session, lake, table, bounds)
    elif table is not None:
        _compact_table(session, lake, table, engine, bounds)
    else:
        _compact_all(session, lake, engine, bounds)


@lake_command("check", "mangrove check ./lake\nmangrove check s3://bucket/lake --store")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Look at N of the versions only.")
@click.option("--repair", is_flag=True, help="Mend what cannot be wrong to mend, then check.")
@click.option("--store", "probes", is_flag=True, help="Race on the store: does exactly one of many writers win?")
@engine_option("counts the rows of data files")
def check_command(
    session: CommandContext, lake: str, sample: int | None, repair: bool, probes: bool, engine: str | None
) -> None:
    """Look for broken rules in every file that the versions reach.

    The exit code is 1 if any is found. With --store the store itself is tested
    instead, in a folder of its own that is deleted afterwards.
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
@click.option("--message", default="", help="The commit message.")
def repair_clock_command(session: CommandContext, lake: str, message: str) -> None:
    """Date versions by this machine's clock again, after a commit whose clock was ahead.

    Commits a version that holds what the newest one holds. Earlier versions that are
    dated in the future count as made no later than it.
    """
    opened = session.open(lake)
    before = opened.version
    version = opened.maintenance.repair_clock(message=message)
    text = (
        f"version {version} is dated by the clock of this machine"
        if version > before
        else f"version {version} is not dated in the future: nothing to repair"
    )
    session.answer({"version": version, "repaired": version > before}, lambda: text)


@lake_command("upgrade", "mangrove upgrade ./lake")
def upgrade_command(session: CommandContext, lake: str) -> None:
    """Bring a lakehouse to the newer format revision, by an ordinary commit."""
    opened = session.open(lake)
    before = opened.version
    with session.watching("upgrading"):
        version = opened.maintenance.upgrade_format()
    said = (
        f"version {version} is in the newer format revision"
        if version > before
        else "the lakehouse is in the newer format revision already"
    )
    session.answer({"version": version, "upgraded": version > before}, lambda: said)


def _compact_tree(session: CommandContext, lake: str, table: str | None, bounds: _Bounds) -> None:
    if table is not None:
        raise InvalidInputError(f"--tree means the catalog's own tree: leave {table} out, or leave out --tree")
    if any(bounds.values()):
        raise InvalidInputError("the tree is compacted as a whole: --bytes-max, --files-max and --full are for tables")
    opened = session.open(lake)
    with session.watching("compacting the tree"):
        version = opened.maintenance.compact_metadata()
    session.answer({"version": version}, lambda: f"version {version} holds the same in a compact tree")


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
    said = f"{len(reports):,} of {len(tables):,} tables were compacted, as of version {version}"
    session.answer(
        {
            "version": version,
            "tables": len(tables),
            "compacted": [*reports],
            "reports": {name: asdict(report) for name, report in reports.items()},
        },
        lambda: shorten_lines([*lines, said]) if reports else f"none of {len(tables):,} tables needs compaction",
    )


def _compact_text(name: str, report: CompactionReport) -> str:
    if not report.logs:
        return f"{name} needs no compaction"
    left = f"; {report.files_left:,} files ({format_bytes(report.bytes_left)}) are left" if report.files_left else ""
    read = f"{report.files_read:,} files ({format_bytes(report.bytes_read)} of rows)"
    return f"{name}: {read} became {report.files_written:,}{left}"


def _probe(session: CommandContext, lake: str) -> None:
    folder = f"mangrove-probe-{session.effects(lake).new_id()}"
    with session.watching("racing for keys"):
        probed = probe_creates(session.store(lake), _PROBE_THREADS, _PROBE_KEYS, folder)
    session.answer({**asdict(probed), "is_sound": probed.is_sound}, lambda: _probe_text(probed))
    if not probed.is_sound:
        raise click.exceptions.Exit(1)


def _probe_text(probed: CreateProbeReport) -> str:
    race = f"{probed.threads} writers raced for each of {probed.keys} keys"
    if probed.is_sound:
        return f"{race}: exactly one won each time, so the store is fit for commits"
    wrong = f"{len(probed.unfair)} had no winner or several, {len(probed.misread)} hold what their winner did not write"
    return f"{race}: {wrong}. Commits can be lost on this store: do not keep a lakehouse there"


def _vacuum_view(report: VacuumReport) -> RenderableType:
    shown = [Text(path, style="dim") for path in report.paths[:_LISTED_PATHS_MAX]]
    return Group(*shown, *build_more_line(len(report.paths) - len(shown)), Text(str(report)))


def _check_view(report: CheckReport) -> RenderableType:
    return Text(shorten_lines(str(report).splitlines()), style="green" if report.is_sound else "red")


_LAYOUTS: Final = {
    ("tree", "newer"): "tree",
    ("tree", "older"): "tree-older",
    ("deltacat", "seed"): "deltacat",
    ("deltacat", "2"): "deltacat-2",
}


def resolve_layout_name(layout: str, revision: str | None) -> str:
    """Return the name under which a layout is made in a format revision.

    >>> resolve_layout_name("deltacat", "2"), resolve_layout_name("tree", None)
    ('deltacat-2', 'tree')
    """
    if revision is None:
        return layout
    if (layout, revision) not in _LAYOUTS:
        known = ", ".join(revision for name, revision in _LAYOUTS if name == layout)
        raise InvalidInputError(f"the {layout} layout has no format revision {revision!r}: use one of {known}")
    return _LAYOUTS[layout, revision]


@lake_command(
    "convert",
    "mangrove convert ./lake ./as-deltacat --layout deltacat\n"
    "mangrove convert s3://bucket/catalog ./lake --layout tree --history latest",
)
@click.argument("destination")
@click.option("--layout", type=click.Choice(["tree", "deltacat"]), help="The layout to make.  [default: the other one]")
@click.option("--revision", help="Its format revision: newer or older of the tree, seed or 2 of DeltaCAT.")
@click.option(
    "--history", type=click.Choice([one.value for one in HistoryMode]), default="all", show_default=True,
    help="Every version, or the newest alone.",
)  # fmt: skip
@click.option(
    "--data", type=click.Choice([one.value for one in DataMode]), default="copy", show_default=True,
    help="Copy data files, or name them where they are.",
)  # fmt: skip
@engine_option("copies files and counts their rows")
def convert_command(
    session: CommandContext, lake: str, destination: str, layout: str | None, revision: str | None,
    history: str, data: str, engine: str | None,
) -> None:  # fmt: skip
    """Tell a lakehouse again in another layout or format revision, in another place.

    Versions keep their messages, authors and times. A conversion that was interrupted
    goes on when it is run again; run after the source has grown, it adds what is new.
    At the end both are compared object by object, and the new one is checked.
    """
    opened = session.open(lake, choose_engines(session, engine))
    requested = resolve_layout_name(layout or default_target_layout(opened.layout), revision)
    with session.watching("converting") as watch:
        report = convert_to_layout(
            opened.maintenance.context(),
            session.store(destination),
            requested,
            MaintenanceEngines(opened.engines, engine, session.storage_options),
            history=history,
            data=data,
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
    session: CommandContext, lake: str, name: str, destination: str | None, at: str | None, mode: str,
    tables: Sequence[str], engine: str | None, no_keep: bool, drop: bool,
) -> None:  # fmt: skip
    """Give a version a name that keeps it, and copy it to another place with --to."""
    if drop and (destination or at or tables):
        raise InvalidInputError("--drop forgets a name and copies nothing: give the name alone")
    if no_keep and destination is None:
        raise InvalidInputError("--no-keep copies and gives no name: say --to where")
    opened = session.open(lake, choose_engines(session, engine))
    kept = opened.maintenance.context()
    if drop:
        dropped = drop_export(kept, name)
        session.answer({"dropped": asdict(dropped)}, lambda: f"the export {dropped} is forgotten")
        return
    version = None if at is None else opened.snapshot_at(at).version
    if destination is None:
        pinned = pin_version(kept, name, version)
        session.answer(
            {"export": asdict(pinned)}, lambda: f"version {pinned.version} is called {name} and will be kept"
        )
        return
    with session.watching("exporting") as watch:
        report = export_version(
            kept,
            session.store(destination),
            name,
            version=version,
            mode=ExportMode(mode),
            tables=tables,
            keep=not no_keep,
            copier=MaintenanceEngines(opened.engines, engine, session.storage_options).copy_files,
            watch=watch,
        )
    session.answer({**asdict(report), "mode": report.mode.value}, lambda: str(report))
