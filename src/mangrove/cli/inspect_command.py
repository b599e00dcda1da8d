"""The command that prints any file of a lakehouse as text."""

import click

from mangrove.cli.command import lake_command
from mangrove.cli.completing import offer_files
from mangrove.cli.facts import as_json
from mangrove.cli.inspect_view import inspected_view
from mangrove.cli.inspection import inspected
from mangrove.cli.session import Session

__all__ = ["inspect_command"]


@lake_command(
    "inspect",
    "mangrove inspect ./lake/_00000000000000000000000000000000.ipc\n"
    "mangrove inspect s3://bucket/lake/_latest_hint.txt --json",
    takes_lake=False,
)
@click.argument("file", shell_complete=offer_files)
def inspect_command(session: Session, file: str) -> None:
    """Print any file of either layout as text: nodes, definitions, guards, logs, hints."""
    found = inspected(*session.file(file))
    session.answer(as_json(found), lambda: inspected_view(found))
