"""Rollback of the tree to an earlier version.

A rollback replaces the newest version at the time of its commit. It conflicts only
with a concurrent rollback. The new root records the version that it replaced, so a
rollback can itself be rolled back. It has the nodes of the earlier root, except for
tables that got columns since: their last column ids are preserved.
"""

from dataclasses import replace

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.layouts.tree.commit import (
    ATTEMPTS_MAX,
    build_attempts_error,
    check_not_expired,
    create_root,
    pause_before_retry,
    read_concurrent_roots,
    write_nodes,
)
from mangrove.layouts.tree.definition_files import append_checksum
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.maintenance.diff import TableOrigins, diff_snapshots
from mangrove.layouts.tree.paths import lakehouse_definition_path
from mangrove.layouts.tree.revision import ROLLBACK_FROM_ROOT
from mangrove.layouts.tree.root import Root, build_system_rows
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.staging import TreeNodeWriter, rebuild_tree, scan_entries, stage_changes
from mangrove.layouts.tree.versions import read_root
from mangrove.metastore import Changes, commit_time_after
from mangrove.model.locators import Kind
from mangrove.model.settings import LakehouseSettings
from mangrove.rebase import build_rollback_conflict_error, restore_object, restore_settings

__all__ = ["roll_back"]


def roll_back(
    effects: Effects, files: TreeFiles, newest: TreeSnapshot, to: TreeSnapshot, changes: Changes
) -> TreeSnapshot:
    """Publish the content of `to` as the next version; `newest` is the newest known version."""
    if changes.puts or changes.deletes or changes.settings is not None:
        raise InvalidInputError("a rollback cannot contain other changes; commit them separately")
    there = read_root(files.store, newest.root.revision.roots, to.version)
    if there is None or there.is_expired:
        raise NotFoundError(f"version {to.version} has expired; see the history for the available versions")
    for attempt in range(ATTEMPTS_MAX):
        restored = _preserve_column_ids(effects, files, newest, to, changes.transaction_id)
        settings = restore_settings(newest.settings, to.settings)
        path = _definition_path(effects, files, newest, to, settings)
        created_at_millis = commit_time_after(newest, changes, effects.now_millis(), effects.clock_tolerance_millis)
        system = build_system_rows(newest.root, changes, path, to.root.key_names, created_at_millis)
        system[ROLLBACK_FROM_ROOT] = newest.root.path
        root = Root(newest.version + 1, restored.root.node, system, newest.root.revision, to.root.key_names)
        if to.root.revision.keys != root.revision.keys:
            root = replace(
                root, node=rebuild_tree(effects, files, root, settings, scan_entries(root.revision, restored))
            )
        if create_root(effects, root, settings, changes):
            return TreeSnapshot(files, root)
        for concurrent_commit in read_concurrent_roots(files, newest):
            check_not_expired(concurrent_commit, newest)
            if concurrent_commit.is_rollback:
                raise build_rollback_conflict_error(concurrent_commit.commit)
            newest = TreeSnapshot(files, concurrent_commit)
        pause_before_retry(effects, attempt)
    raise build_attempts_error(changes.transaction_id)


def _preserve_column_ids(
    effects: Effects, files: TreeFiles, newest: TreeSnapshot, to: TreeSnapshot, transaction_id: str
) -> TreeSnapshot:
    """Return `to` with the last column ids of the newest version, so that no id is assigned again."""
    restored = {
        one.locator: (one.before, restore_object(one.after, one.before))
        for one in diff_snapshots(to, newest, TableOrigins(), {Kind.TABLE_VERSION})
        if one.before is not None
    }
    puts = {locator: after for locator, (before, after) in restored.items() if before != after}
    if not puts:
        return to
    staged = stage_changes(to, Changes(transaction_id, puts), effects.new_id)
    nodes = TreeNodeWriter(to.root, to.settings, effects.now_millis(), effects.new_id)
    return TreeSnapshot(files, write_nodes(effects, files, to, staged, nodes, to.root.created_at_millis))


def _definition_path(
    effects: Effects, files: TreeFiles, newest: TreeSnapshot, to: TreeSnapshot, settings: LakehouseSettings
) -> str:
    for known in (to, newest):
        if settings == known.settings:
            return known.root.definition_path
    path = lakehouse_definition_path(effects.new_id())
    files.write({path: append_checksum(encode_definition(settings, to.carried_settings), Kind.LAKEHOUSE)})
    return path
