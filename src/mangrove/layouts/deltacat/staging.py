"""Turning a transaction's changes into the files that it writes and the messages that the index takes."""

from typing import Final

from mangrove.layouts.deltacat.bodies import named_fields
from mangrove.layouts.deltacat.draft import Draft, Staged
from mangrove.layouts.deltacat.files import Wanted
from mangrove.layouts.deltacat.guard import Written
from mangrove.layouts.deltacat.keys import object_key
from mangrove.layouts.deltacat.paths import SETTINGS_FOLDER
from mangrove.layouts.deltacat.readable import check_readable, is_for_deltacat
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.staged_below import stage_below
from mangrove.layouts.deltacat.staged_names import NAMED, stage_names
from mangrove.metastore import Changes
from mangrove.model.locators import Kind
from mangrove.model.settings import LakehouseSettings

__all__ = ["SETTINGS_WRITTEN", "stage", "stage_settings"]

SETTINGS_WRITTEN: Final = Written(object_key(SETTINGS_FOLDER), "the lakehouse's own definition")


def stage(base: CatalogSnapshot, changes: Changes, transaction: str) -> Staged:
    """Return the changes as files with revision numbers that follow those of `base`."""
    settings = changes.settings or base.settings
    for locator in changes.puts:
        if locator.kind in NAMED:
            settings.check_object_name(locator.kind, str(locator.parts[-1]))
    if is_for_deltacat(settings):
        check_readable(base, changes)
    draft = Draft(base, transaction)
    stage_names(draft, changes)
    stage_below(draft, changes)
    if changes.settings is not None:
        stage_settings(draft, changes.settings)
    return draft.staged()


def stage_settings(draft: Draft, settings: LakehouseSettings) -> None:
    """Draft a change of the lakehouse's own definition."""
    key = SETTINGS_WRITTEN.key
    current = draft.base.stored_at(key)
    wanted = [] if current is None else [Wanted(Kind.LAKEHOUSE, SETTINGS_FOLDER, current)]
    before = [body.fields for body in draft.base.files.bodies(wanted)]
    fields = named_fields(settings, before[0] if before else None)
    draft.set(key, draft.put(SETTINGS_FOLDER, current, settings, fields).text)
    draft.touch_key(SETTINGS_WRITTEN)
