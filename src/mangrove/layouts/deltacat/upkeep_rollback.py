"""Rolling the whole catalog back: what an earlier version holds is written again as the next version.

DeltaCAT knows revisions and no versions, so each object that differs gets a new
revision that says what the earlier one said, and what came since is deleted.
Names are led back one by one by their keys: a name that lies in a namespace which
was itself renamed cannot be told by locators of one version alone.
"""

from collections.abc import Sequence
from dataclasses import replace

from mangrove.betree.difference import Change
from mangrove.betree.difference import differences as index_differences
from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.layouts.deltacat.bodies import Body
from mangrove.layouts.deltacat.commit import replace_newest
from mangrove.layouts.deltacat.draft import Draft, Staged
from mangrove.layouts.deltacat.files import Wanted
from mangrove.layouts.deltacat.guard import Written
from mangrove.layouts.deltacat.index import read_mapped, read_stored
from mangrove.layouts.deltacat.keys import folder_in, folder_of, locator_of_below, sort_of
from mangrove.layouts.deltacat.paths import OURS, shared_transaction_folder, view_folder
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.staging import SETTINGS_WRITTEN, stage_settings
from mangrove.metastore import Changes
from mangrove.model.locators import Kind
from mangrove.model.settings import LakehouseSettings

__all__ = ["roll_back"]

_NAMES, _BELOW, _OBJECT, _MAPPING = "1234", "5678", "o", "y"


def roll_back(effects: Effects, newest: CatalogSnapshot, to: CatalogSnapshot, changes: Changes) -> CatalogSnapshot:
    """Publish what `to` holds as the version after the newest, of which `newest` is known."""
    if not changes.is_empty:
        raise InvalidInputError("a rollback changes nothing else: commit the changes after it")
    return replace_newest(effects, to.files, newest, changes, lambda base, started: _undoing(base, to, started))


def _undoing(newest: CatalogSnapshot, to: CatalogSnapshot, transaction: str) -> Staged:
    """Return what makes the newest version hold what `to` holds."""
    draft = Draft(newest, transaction)
    changed = list(index_differences(newest.guard.root, to.guard.root, newest.read_nodes))
    objects = [one for one in changed if sort_of(one.key) in _OBJECT + _BELOW and one.key != SETTINGS_WRITTEN.key]
    for change, body in zip(objects, _bodies(to, objects), strict=True):
        _write_object(draft, change, body)
    for change in changed:
        if sort_of(change.key) in _NAMES:
            draft.set(change.key, change.after)
        elif sort_of(change.key) == _MAPPING:
            _lead_back(draft, change)
        draft.touch_key(Written(change.key, "the whole lakehouse"))
    settings = _settings_after(newest, to)
    if settings != newest.settings:
        stage_settings(draft, settings)
    return draft.staged()


def _write_object(draft: Draft, change: Change, body: Body | None) -> None:
    """Write an object as it was, or its last revision if it was not there."""
    folder = _folder(change.key)
    current = None if change.before is None else read_stored(change.before)
    if body is None or change.after is None:
        if current is not None:
            fields = draft.base.files.bodies([Wanted(_kind(change.key), folder, current)])[0].fields
            draft.note(folder, draft.put(folder, current, None, fields), fields)
        draft.set(change.key, None)
        return
    earlier = read_stored(change.after)
    stored = draft.put(folder, current, body.value, body.fields)
    draft.set(change.key, replace(stored, names=earlier.names, name=earlier.name).text)
    draft.note(folder, stored, body.fields)


def _lead_back(draft: Draft, change: Change) -> None:
    folder = folder_in(change.key)
    before, after = read_mapped(change.before).target, read_mapped(change.after).target
    if after:
        draft.note_mapping(after, draft.map(folder, after))
    elif before:
        draft.note_mapping(before, draft.unmap(folder, before))


def _bodies(to: CatalogSnapshot, changes: Sequence[Change]) -> list[Body | None]:
    wanted = [
        None if one.after is None else Wanted(_kind(one.key), _folder(one.key), read_stored(one.after))
        for one in changes
    ]
    found = iter(to.files.bodies([one for one in wanted if one is not None]))
    return [None if one is None else next(found) for one in wanted]


def _folder(key: str) -> str:
    return folder_in(key) if sort_of(key) == _OBJECT else folder_of(locator_of_below(key))


def _kind(key: str) -> Kind:
    """Return the kind of the object with this key; for one that has a name, its folder tells."""
    if sort_of(key) != _OBJECT:
        return Kind(int(sort_of(key)))
    folder = folder_in(key)
    if folder.startswith(view_folder("")):
        return Kind.VIEW
    if folder.startswith(shared_transaction_folder("")):
        return Kind.SHARED_TRANSACTION
    assert not folder.startswith(OURS), f"{folder} is none of an object with a name"
    return Kind.TABLE if "/" in folder else Kind.NAMESPACE


def _settings_after(newest: CatalogSnapshot, to: CatalogSnapshot) -> LakehouseSettings:
    """Return the settings of `to`, with what the newest version knows of versions: that is no content of any."""
    return replace(
        to.settings,
        exported_snapshots=newest.settings.exported_snapshots,
        maximum_version_age_millis_overrides=newest.settings.maximum_version_age_millis_overrides,
    )
