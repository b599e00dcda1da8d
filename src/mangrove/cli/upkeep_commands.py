"""The commands that keep a lakehouse in order: expire, vacuum, compact, check, repair-clock, upgrade."""

from dataclasses import asdict
from typing import TypedDict, Unpack

import click
from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.command import lake_command
from mangrove.cli.completing import offer_tables
from mangrove.cli.long_lists import more_line, shortened
from mangrove.cli.session import Session
from mangrove.cli.upkeep import engine_option, upkeep_engines
from mangrove.errors import FormatError, InvalidInputError
from mangrove.lakehouse.checking import unopened_report
from mangrove.lakehouse.compacting import compact_tables, managed_tables
from mangrove.lakehouse.tree_upkeep import compact_tree, upgrade_tree
from mangrove.maintenance.check import CheckReport
from mangrove.maintenance.progress import said_bytes
from mangrove.maintenance.vacuum import VacuumReport
from mangrove.storage.probe import ProbedCreates, probe_creates
from mangrove.tables.compaction import CompactionReport

__all__ = [
    "check_command",
    "compact_command",
    "expire_command",
    "repair_clock_command",
    "upgrade_command",
    "vacuum_command",
]


class _Bounds(TypedDict):
    """How much of each table is compacted."""

    bytes_max: int | None
    files_max: int | None
    full: bool


_PATHS_SHOWN = 20
_PROBE_THREADS, _PROBE_KEYS = 16, 50


@lake_command("expire", "mangrove expire ./lake --dry-run")
@click.option("--dry-run", is_flag=True, help="Only say which versions would go.")
@click.option("--alone", is_flag=True, help="Promise that nobody else reads or writes meanwhile.")
def expire_command(session: Session, lake: str, dry_run: bool, alone: bool) -> None:
    """Forget versions that are older than the lakehouse keeps them; exports stay.

    What only they needed becomes garbage, which `mangrove vacuum` deletes.
    """
    opened = session.open(lake)
    with session.watching("expiring versions") as watch:
        report = opened.expire(dry_run=dry_run, alone=alone, watch=watch)
    session.answer({**asdict(report), "versions": list(report.versions)}, lambda: str(report))


@lake_command("vacuum", "mangrove vacuum ./lake --dry-run\nmangrove vacuum ./lake --grace 3d")
@click.option("--dry-run", is_flag=True, help="Only say which files would go.")
@click.option("--grace", metavar="DURATION", help="Leave files that are younger than this.  [default: 1d]")
@click.option("--alone", is_flag=True, help="Promise that nobody else writes meanwhile: then age does not count.")
@engine_option("deletes")
def vacuum_command(
    session: Session, lake: str, dry_run: bool, grace: str | None, alone: bool, engine: str | None
) -> None:
    """Delete the files that no version needs."""
    opened = session.open(lake, upkeep_engines(session, engine))
    with session.watching("looking for garbage") as watch:
        report = opened.vacuum(dry_run=dry_run, grace=grace, alone=alone, engine=engine, watch=watch)
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
    session: Session, lake: str, table: str | None, tree: bool, engine: str | None, **bounds: Unpack[_Bounds]
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
    session: Session, lake: str, sample: int | None, repair: bool, probes: bool, engine: str | None
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
            opened = session.open(lake, upkeep_engines(session, engine))
        except FormatError as error:
            report = unopened_report(session.effects(lake), error)
        else:
            report = opened.check(sample=sample, repair=repair, engine=engine, watch=watch)
    session.answer(
        {**asdict(report), "versions": list(report.versions), "is_sound": report.is_sound}, lambda: _check_view(report)
    )
    if not report.is_sound:
        raise click.exceptions.Exit(1)


@lake_command("repair-clock", "mangrove repair-clock ./lake")
@click.option("--message", default="", help="The commit message.")
def repair_clock_command(session: Session, lake: str, message: str) -> None:
    """Date versions by this machine's clock again, after a commit whose clock was ahead.

    Commits a version that holds what the newest one holds. Earlier versions that are
    dated in the future count as made no later than it.
    """
    opened = session.open(lake)
    before = opened.version
    version = opened.repair_clock(message=message)
    text = (
        f"version {version} is dated by the clock of this machine"
        if version > before
        else f"version {version} is not dated in the future: nothing to repair"
    )
    session.answer({"version": version, "repaired": version > before}, lambda: text)


@lake_command("upgrade", "mangrove upgrade ./lake")
def upgrade_command(session: Session, lake: str) -> None:
    """Bring a lakehouse to the newer format revision, by an ordinary commit."""
    opened = session.open(lake)
    before = opened.version
    with session.watching("upgrading"):
        version = upgrade_tree(opened)
    said = (
        f"version {version} is in the newer format revision"
        if version > before
        else "the lakehouse is in the newer format revision already"
    )
    session.answer({"version": version, "upgraded": version > before}, lambda: said)


def _compact_tree(session: Session, lake: str, table: str | None, bounds: _Bounds) -> None:
    if table is not None:
        raise InvalidInputError(f"--tree means the catalog's own tree: leave {table} out, or leave out --tree")
    if any(bounds.values()):
        raise InvalidInputError("the tree is compacted as a whole: --bytes-max, --files-max and --full are for tables")
    opened = session.open(lake)
    with session.watching("compacting the tree"):
        version = compact_tree(opened)
    session.answer({"version": version}, lambda: f"version {version} holds the same in a compact tree")


def _compact_table(session: Session, lake: str, name: str, engine: str | None, bounds: _Bounds) -> None:
    opened = session.open(lake, upkeep_engines(session, engine))
    with session.watching(f"compacting {name}") as watch:
        report = opened.table(name).compact(engine=engine, watch=watch, **bounds)
    version = opened.version
    session.answer(
        {"version": version, "compacted": report.logs > 0, **asdict(report)},
        lambda: f"{_compact_text(name, report)}, as of version {version}",
    )


def _compact_all(session: Session, lake: str, engine: str | None, bounds: _Bounds) -> None:
    opened = session.open(lake, upkeep_engines(session, engine))
    tables = managed_tables(opened)
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
        lambda: shortened([*lines, said]) if reports else f"none of {len(tables):,} tables needs compaction",
    )


def _compact_text(name: str, report: CompactionReport) -> str:
    if not report.logs:
        return f"{name} needs no compaction"
    left = f"; {report.files_left:,} files ({said_bytes(report.bytes_left)}) are left" if report.files_left else ""
    read = f"{report.files_read:,} files ({said_bytes(report.bytes_read)} of rows)"
    return f"{name}: {read} became {report.files_written:,}{left}"


def _probe(session: Session, lake: str) -> None:
    folder = f"mangrove-probe-{session.effects(lake).new_id()}"
    with session.watching("racing for keys"):
        probed = probe_creates(session.store(lake), _PROBE_THREADS, _PROBE_KEYS, folder)
    session.answer({**asdict(probed), "is_sound": probed.is_sound}, lambda: _probe_text(probed))
    if not probed.is_sound:
        raise click.exceptions.Exit(1)


def _probe_text(probed: ProbedCreates) -> str:
    race = f"{probed.threads} writers raced for each of {probed.keys} keys"
    if probed.is_sound:
        return f"{race}: exactly one won each time, so the store is fit for commits"
    wrong = f"{len(probed.unfair)} had no winner or several, {len(probed.misread)} hold what their winner did not write"
    return f"{race}: {wrong}. Commits can be lost on this store: do not keep a lakehouse there"


def _vacuum_view(report: VacuumReport) -> RenderableType:
    shown = [Text(path, style="dim") for path in report.paths[:_PATHS_SHOWN]]
    return Group(*shown, *more_line(len(report.paths) - len(shown)), Text(str(report)))


def _check_view(report: CheckReport) -> RenderableType:
    return Text(shortened(str(report).splitlines()), style="green" if report.is_sound else "red")
