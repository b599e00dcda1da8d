"""The DeltaCAT layout's metastore, in both format revisions."""

import pytest

from mangrove.effects import Effects
from mangrove.layouts.deltacat.metastore import create_catalog, has_catalog, open_catalog
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, DeltaCatRevision
from mangrove.metastore import Changes, Metastore
from mangrove.model.settings import LakehouseSettings
from mangrove.testing.metastore_contract import IntentContract, MakeMetastore, MetastoreContract, RebaseContract


class CatalogMetastoreFixtures:
    """Metastores of each format revision."""

    @pytest.fixture(params=[SEED, DELTACAT_2], ids=["seed", "deltacat-2"])
    def revision(self, request: pytest.FixtureRequest) -> DeltaCatRevision:
        assert isinstance(request.param, DeltaCatRevision)
        return request.param

    @pytest.fixture
    def make_metastore(self, revision: DeltaCatRevision) -> MakeMetastore:
        def make(effects: Effects) -> Metastore:
            if has_catalog(effects.store):
                return open_catalog(effects)
            return create_catalog(effects, LakehouseSettings(), Changes("made"), revision)

        return make


class TestCatalogMetastore(CatalogMetastoreFixtures, MetastoreContract):
    """All that the contract asks for."""


class TestRebaseOfCatalogs(CatalogMetastoreFixtures, RebaseContract):
    """Isolation of changes that are rebased before their commit."""


class TestIntentsOfCatalogs(CatalogMetastoreFixtures, IntentContract):
    """Isolation of transactions that are published as intents."""
