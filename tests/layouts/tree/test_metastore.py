"""The tree layout's metastore, in both format revisions."""

import pytest

from mangrove.effects import Effects
from mangrove.layouts.tree.metastore import create_tree, open_tree
from mangrove.layouts.tree.revision import NEWER, OLDER, TreeRevision
from mangrove.layouts.tree.versions import find_root_names
from mangrove.metastore import Changes, Metastore
from mangrove.model.settings import STRICT_TREE, LakehouseSettings
from mangrove.testing.metastore_contract import IntentContract, MakeMetastore, MetastoreContract, RebaseContract


class TreeMetastoreFixtures:
    """Metastores of each format revision."""

    @pytest.fixture(params=[NEWER, OLDER], ids=["newer", "older"])
    def revision(self, request: pytest.FixtureRequest) -> TreeRevision:
        assert isinstance(request.param, TreeRevision)
        return request.param

    @pytest.fixture(params=[{}, {STRICT_TREE: "true"}], ids=["extended", "strict"])
    def settings(self, request: pytest.FixtureRequest) -> LakehouseSettings:
        return LakehouseSettings(properties=request.param)

    @pytest.fixture
    def make_metastore(self, revision: TreeRevision, settings: LakehouseSettings) -> MakeMetastore:
        def make(effects: Effects) -> Metastore:
            if find_root_names(effects.store) is not None:
                return open_tree(effects)
            return create_tree(effects, settings, Changes("made"), revision)

        return make


class TestTreeMetastore(TreeMetastoreFixtures, MetastoreContract):
    """All that the contract asks for."""


class TestRebaseOfTrees(TreeMetastoreFixtures, RebaseContract):
    """Isolation of changes that are rebased before their commit."""


class TestIntentsOfTrees(TreeMetastoreFixtures, IntentContract):
    """Isolation of transactions that are published as intents."""
