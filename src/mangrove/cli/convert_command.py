"""The command that tells a lakehouse again in another layout: convert."""

from dataclasses import asdict
from typing import Final

import click

from mangrove.cli.command import lake_command
from mangrove.cli.session import Session
from mangrove.cli.upkeep import engine_option, upkeep_engines
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.converting import convert_lake, other_layout
from mangrove.lakehouse.upkeep_engines import UpkeepEngines
from mangrove.maintenance.convert import ConvertReport, DataMode, History
from mangrove.model.json_form import Json

__all__ = ["convert_command", "layout_asked_for"]

_LAYOUTS: Final = {
    ("tree", "newer"): "tree",
    ("tree", "older"): "tree-older",
    ("deltacat", "seed"): "deltacat",
    ("deltacat", "2"): "deltacat-2",
}


def layout_asked_for(layout: str, revision: str | None) -> str:
    """Return the name under which a layout is made in a format revision.

    >>> layout_asked_for("deltacat", "2"), layout_asked_for("tree", None)
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
    "--history", type=click.Choice([one.value for one in History]), default="all", show_default=True,
    help="Every version, or the newest alone.",
)  # fmt: skip
@click.option(
    "--data", type=click.Choice([one.value for one in DataMode]), default="copy", show_default=True,
    help="Copy data files, or name them where they are.",
)  # fmt: skip
@engine_option("copies files and counts their rows")
def convert_command(
    session: Session, lake: str, destination: str, layout: str | None, revision: str | None,
    history: str, data: str, engine: str | None,
) -> None:  # fmt: skip
    """Tell a lakehouse again in another layout or format revision, in another place.

    Versions keep their messages, authors and times. A conversion that was interrupted
    goes on when it is run again; run after the source has grown, it adds what is new.
    At the end both are compared object by object, and the new one is checked.
    """
    opened = session.open(lake, upkeep_engines(session, engine))
    asked = layout_asked_for(layout or other_layout(opened.layout), revision)
    with session.watching("converting") as watch:
        report = convert_lake(
            opened.maintained(),
            session.store(destination),
            asked,
            UpkeepEngines(opened.engines, engine, session.storage_options),
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
