"""The versions that a handle has in memory."""

from mangrove.layouts.recent_versions import RecentVersions
from mangrove.layouts.tree.metastore import create_tree
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Changes
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_namespace


def test_an_older_version_does_not_replace_the_newest() -> None:
    metastore = create_tree(build_deterministic_effects(MemoryStore()), LakehouseSettings(), Changes("made"))
    older = metastore.latest()
    newest = commit_objects(metastore, older, make_namespace("sales")).snapshot
    assert isinstance(newest, TreeSnapshot)
    recent = RecentVersions[TreeSnapshot](None, lambda versions: [None] * len(versions))
    recent.add(newest, 100)
    recent.add(older, 200)
    assert recent.newest is newest
    assert recent.newest_since(100) is newest
    assert recent.newest_since(101) is None
