"""Rollback of a catalog to an earlier version.

DeltaCAT knows revisions and no versions. Each object that differs therefore gets a
new revision with its earlier content, and later objects are deleted. Names are
restored by their keys, because locators are ambiguous if a namespace was renamed.
"""

from collections.abc import Sequence
from dataclasses import replace

from mangrove.betree.diff import KeyChange
from mangrove.betree.diff import diff_trees as index_differences
from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.layouts.deltacat.commit import commit_rollback
from mangrove.layouts.deltacat.files import RevisionRef
from mangrove.layouts.deltacat.guards import WrittenKey
from mangrove.layouts.deltacat.index import (
    folder_of,
    folder_of_key,
    key_class_of,
    locator_from_key,
    parse_mapping_entry,
    parse_revision_entry,
)
from mangrove.layouts.deltacat.object_codec import ObjectBody
from mangrove.layouts.deltacat.paths import MANGROVE_FOLDER, alias_folder, shared_transaction_folder, view_folder
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.staging import WRITTEN_SETTINGS_KEY, StagedCatalogWrite, WriteDraft, stage_settings
from mangrove.layouts.deltacat.table_codec import encode_table_version
from mangrove.metastore import Changes
from mangrove.model.locators import Kind, Locator, TableVersionLocator
from mangrove.model.objects import Object, TableVersion
from mangrove.rebase import restore_object, restore_settings

__all__ = ["roll_back"]

_NAMES, _BELOW, _OBJECT, _MAPPING = "12349", "5678", "o", "y"


def roll_back(effects: Effects, newest: DeltaCatSnapshot, to: DeltaCatSnapshot, changes: Changes) -> DeltaCatSnapshot:
    """Publish the content of `to` as the next version; `newest` is the newest known version."""
    if not changes.is_empty:
        raise InvalidInputError("a rollback cannot contain other changes; commit them separately")
    return commit_rollback(effects, to.files, newest, changes, lambda base, started: _stage_rollback(base, to, started))


def _stage_rollback(newest: DeltaCatSnapshot, to: DeltaCatSnapshot, transaction: str) -> StagedCatalogWrite:
    """Return the staged files that restore the content of `to`."""
    draft = WriteDraft(newest, transaction)
    changed = list(index_differences(newest.guard.root, to.guard.root, newest.read_nodes))
    objects = [
        one for one in changed if key_class_of(one.key) in _OBJECT + _BELOW and one.key != WRITTEN_SETTINGS_KEY.key
    ]
    for change, body in zip(objects, _bodies(to, objects), strict=True):
        _write_object(draft, change, body)
    for change in changed:
        if key_class_of(change.key) in _NAMES:
            draft.set(change.key, change.after)
        elif key_class_of(change.key) == _MAPPING:
            _restore_mapping(draft, change)
        draft.touch_key(WrittenKey(change.key, "the whole lakehouse"))
    settings = restore_settings(newest.settings, to.settings)
    if settings != newest.settings:
        stage_settings(draft, settings)
    return draft.staged()


def _write_object(draft: WriteDraft, change: KeyChange, body: ObjectBody | None) -> None:
    """Write an object as it was, or a delete revision if it did not exist."""
    folder = _folder(change.key)
    current = None if change.before is None else parse_revision_entry(change.before)
    if body is None or change.after is None:
        if current is not None:
            fields = draft.base.files.bodies([RevisionRef(_kind(change.key), folder, current)])[0].fields
            draft.note(folder, draft.put(folder, current, None, fields), fields)
        draft.set(change.key, None)
        return
    earlier = parse_revision_entry(change.after)
    if current is not None and _kind(change.key) is Kind.TABLE_VERSION:
        newest = draft.base.files.bodies([RevisionRef(Kind.TABLE_VERSION, folder, current)])[0].value
        body = _preserve_column_ids(locator_from_key(change.key), newest, body)
    stored = draft.put(folder, current, body.value, body.fields)
    draft.set(change.key, replace(stored, names=earlier.names, name=earlier.name).text)
    draft.note(folder, stored, body.fields)


def _preserve_column_ids(locator: Locator, newest: Object, body: ObjectBody) -> ObjectBody:
    """Return a table version with the last column id of the newest version, so that no id is assigned again."""
    value = restore_object(newest, body.value)
    if value == body.value:
        return body
    assert isinstance(locator, TableVersionLocator)
    assert isinstance(value, TableVersion)
    return ObjectBody(value, encode_table_version(locator, value, body.fields))


def _restore_mapping(draft: WriteDraft, change: KeyChange) -> None:
    folder = folder_of_key(change.key)
    before, after = parse_mapping_entry(change.before).target, parse_mapping_entry(change.after).target
    if after:
        draft.note_mapping(after, draft.map(folder, after))
    elif before:
        draft.note_mapping(before, draft.unmap(folder, before))


def _bodies(to: DeltaCatSnapshot, changes: Sequence[KeyChange]) -> list[ObjectBody | None]:
    requested = [
        None if one.after is None else RevisionRef(_kind(one.key), _folder(one.key), parse_revision_entry(one.after))
        for one in changes
    ]
    found = iter(to.files.bodies([one for one in requested if one is not None]))
    return [None if one is None else next(found) for one in requested]


def _folder(key: str) -> str:
    return folder_of_key(key) if key_class_of(key) == _OBJECT else folder_of(locator_from_key(key))


def _kind(key: str) -> Kind:
    """Return the kind of the object with this key; for a named object from its folder."""
    if key_class_of(key) != _OBJECT:
        return Kind(int(key_class_of(key)))
    folder = folder_of_key(key)
    if folder.startswith(view_folder("")):
        return Kind.VIEW
    if folder.startswith(shared_transaction_folder("")):
        return Kind.SHARED_TRANSACTION
    if folder.startswith(alias_folder("")):
        return Kind.ALIAS
    assert not folder.startswith(MANGROVE_FOLDER), f"{folder} is none of an object with a name"
    return Kind.TABLE if "/" in folder else Kind.NAMESPACE
