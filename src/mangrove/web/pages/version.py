"""Version diff page."""

from collections.abc import Sequence
from typing import Final

from mangrove.inspect.diff import DiffEntry
from mangrove.inspect.history import VersionDiffInfo
from mangrove.maintenance.progress import format_quantity
from mangrove.model.locators import parse_table_name
from mangrove.web.actions import MESSAGE_CHARACTERS_MAX
from mangrove.web.links import Links
from mangrove.web.rendering import render_page

__all__ = ["render_version_page"]

_CHANGES_OPEN_MAX: Final = 20
"""With more changes those of tables with many are collapsed."""


def render_version_page(info: VersionDiffInfo, api_address: str, *, csrf_token: str | None = None) -> bytes:
    """Return the page of a version with its changes; with a CSRF token, a rollback preview has a form."""
    return render_page(
        "version.html",
        info,
        api_address,
        groups=_group_by_table(info),
        summary=_summarize_changes(info.changes),
        csrf_token=csrf_token,
        changes_open_max=_CHANGES_OPEN_MAX,
        message_characters_max=MESSAGE_CHARACTERS_MAX,
    )


def _group_by_table(info: VersionDiffInfo) -> list[tuple[str, str, list[tuple[DiffEntry, str | None]]]]:
    """Return the changes of each table, and the others, with a title and a summary."""
    groups: dict[str, list[DiffEntry]] = {}
    for change in info.changes:
        groups.setdefault(f"table {change.table}" if change.table else "lakehouse", []).append(change)
    return [
        (title, _summarize_changes(changes), [(change, _change_url(change, info)) for change in changes])
        for title, changes in groups.items()
    ]


def _summarize_changes(changes: Sequence[DiffEntry]) -> str:
    actions = [change.action for change in changes]
    counts = (
        f"{actions.count(action)} {action}"
        for action in ("added", "changed", "renamed", "removed")
        if action in actions
    )
    return f"{format_quantity(len(changes), 'object')}: {', '.join(counts)}"


def _change_url(change: DiffEntry, info: VersionDiffInfo) -> str | None:
    """Return the URL of the changed table, in a version that has it."""
    if change.table is None or info.against is None:
        return None
    version = info.against.version if change.action == "removed" else info.version.version
    links = Links(None if version == info.seen.newest_version else str(version))
    return links.table(parse_table_name(change.table))
