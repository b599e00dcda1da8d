"""History and version diff pages."""

from mangrove.inspect.diff import DiffEntry
from mangrove.inspect.formatting import format_count, format_quantity, format_timestamp
from mangrove.inspect.history import HistoryInfo, VersionDiffInfo
from mangrove.model.locators import parse_table_name
from mangrove.web.html import Content, Element, element
from mangrove.web.links import Links
from mangrove.web.pages.frame import render_frame
from mangrove.web.pages.pieces import code, more, note, render_definition_list, section, timeline
from mangrove.web.rollback import MESSAGE_CHARACTERS_MAX

__all__ = ["render_history_page", "render_version_page"]


def render_history_page(facts: HistoryInfo, api_address: str) -> Element:
    """Return a page of the history."""
    links = Links(facts.seen.requested)
    following = None if facts.next_before is None else links.history(before=facts.next_before)
    return render_frame(
        facts.seen,
        "History",
        (("Overview", links.overview()), ("History", None)),
        "History",
        api_address,
        timeline(facts.versions, links) if facts.versions else note("No version that is kept lies before."),
        more(following, "Older versions"),
    )


def render_version_page(facts: VersionDiffInfo, api_address: str, *, proof: str | None = None) -> Element:
    """Return a version with what changed on the way to it; with a proof, a preview of a rollback can be done."""
    links, version = Links(facts.seen.requested), facts.version
    return render_frame(
        facts.seen,
        f"Version {version.version}",
        (("Overview", links.overview()), ("History", links.history()), (f"Version {version.version}", None)),
        "History",
        api_address,
        render_definition_list(_about(facts)),
        _render_version_links(facts, links),
        _changes(facts),
        _rollback_form(facts, proof) if proof is not None and facts.is_rollback_preview else None,
    )


def _about(facts: VersionDiffInfo) -> list[tuple[str, Content]]:
    version = facts.version
    told: list[tuple[str, Content]] = [("Committed", format_timestamp(version.created_at_millis))]
    if version.rolled_back_from is not None:
        told.append(("Rolled back from", f"version {version.rolled_back_from}"))
    for one in version.transactions:
        said = [
            element("span", one.message or "no message"),
            f" by {one.author}" if one.author else None,
            element("br"),
            code(one.id),
            [(element("br"), f"{key}: {value}") for key, value in one.properties],
        ]
        told.append(("Transaction", said))
    return told


def _render_version_links(facts: VersionDiffInfo, links: Links) -> Element:
    version, newest = facts.version.version, facts.seen.newest_version
    preview = element("a", "Preview a rollback to it", href=links.version(version, against=newest))
    against = "" if facts.against is None else str(facts.against.version)
    return element(
        "div",
        element("p", element("a", "Browse the lakehouse at this version", href=Links(str(version)).overview())),
        element("p", preview) if version < newest and not facts.is_rollback_preview else None,
        element(
            "form",
            element("label", "Compare with ", for_="against"),
            element("input", id="against", name="against", value=against, autocomplete="off", size=12),
            element("input", type="hidden", name="version", value=facts.seen.requested)
            if facts.seen.requested
            else None,
            element("button", "Compare"),
            action=Links().version(version),
            method="get",
        ),
        class_="ways",
    )


def _rollback_form(facts: VersionDiffInfo, proof: str) -> Element:
    version, newest = facts.version.version, facts.seen.newest_version
    return section(
        "Do it",
        element(
            "p",
            f"Version {newest + 1} will hold what version {version} holds. "
            f"Version {newest} stays in the history, and a rollback to it takes this back.",
        ),
        element(
            "form",
            element("label", "Why ", for_="message"),
            element(
                "input", id="message", name="message", autocomplete="off", size=40, maxlength=MESSAGE_CHARACTERS_MAX
            ),
            element("input", type="hidden", name="from", value=newest),
            element("input", type="hidden", name="proof", value=proof),
            element("button", f"Roll back to version {version}", class_="danger"),
            action=Links().rollback(version),
            method="post",
        ),
    )


def _changes(facts: VersionDiffInfo) -> Element:
    version = facts.version.version
    if not facts.can_compare:
        return note("This layout cannot compare versions.")
    if facts.against is None:
        return note("It is the oldest version that is kept, so there is nothing to compare it with.")
    if facts.is_rollback_preview:
        title = f"What a rollback from version {facts.against.version} to version {version} would do"
    else:
        title = f"What changed from version {facts.against.version} to version {version}"
    if not facts.changes:
        return section(title, note("Both hold the same."))
    left_out = note(f"There is more: the first {format_count(len(facts.changes))} changes are shown.")
    return section(
        title,
        element("p", _summary(facts.changes), class_="quiet"),
        left_out if facts.has_more else None,
        element("ul", (_change(one, facts, facts.against.version) for one in facts.changes), class_="changes"),
    )


def _summary(changes: tuple[DiffEntry, ...]) -> str:
    actions = [one.action for one in changes]
    parts = (f"{actions.count(word)} {word}" for word in ("added", "changed", "renamed", "removed") if word in actions)
    return f"{format_quantity(len(changes), 'object')}: {', '.join(parts)}"


def _change(one: DiffEntry, facts: VersionDiffInfo, against: int) -> Element:
    name: Content = one.name
    if one.table is not None:
        # It is shown in a version that has it.
        there = against if one.action == "removed" else facts.version.version
        links = Links(None if there == facts.seen.newest_version else str(there))
        name = element("a", one.name, href=links.table(parse_table_name(one.table)))
    return element(
        "li",
        element("span", one.action, class_=f"badge {one.action}"),
        " ",
        element("span", one.kind, class_="quiet"),
        " ",
        name,
        element("ul", (_field(field.field, field.before, field.after) for field in one.fields), class_="fields")
        if one.fields
        else None,
    )


def _field(name: str, before: str | None, after: str | None) -> Element:
    return element(
        "li",
        code(name),
        " ",
        element("del", before) if before is not None else None,
        " → " if before is not None and after is not None else None,
        element("ins", after) if after is not None else None,
    )
