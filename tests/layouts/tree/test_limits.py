"""The limits in the lakehouse definition hold for every path, in both format revisions."""

from dataclasses import replace

import pytest
from tests.support.table_properties import DATA_FILES_ONLY

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.opening import create_on_store
from mangrove.layouts.tree.keys import NameSizes
from mangrove.layouts.tree.metastore import create_tree
from mangrove.layouts.tree.paths import PATH_BYTES_MIN, definition_path
from mangrove.layouts.tree.revision import NEWER, OLDER, TreeRevision
from mangrove.layouts.tree.root import shape_of
from mangrove.metastore import Changes
from mangrove.model.locators import Kind
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.settings import STRICT_TREE, LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo
from mangrove.tables.write_plan import build_data_file_path
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import (
    PARTITION,
    commit_objects,
    make_delta_locator,
    make_namespace,
    make_table,
)
from mangrove.wiring import LocalEngines

SMALLEST = LakehouseSettings(order=4, file_path_max_size_bytes=PATH_BYTES_MIN)


@pytest.fixture(params=[NEWER, OLDER], ids=["newer", "older"])
def revision(request: pytest.FixtureRequest) -> TreeRevision:
    assert isinstance(request.param, TreeRevision)
    return request.param


@pytest.fixture
def effects() -> Effects:
    return build_deterministic_effects(MemoryStore("memory://limits/"))


def test_path_limits_that_are_too_small_are_rejected_at_creation(effects: Effects, revision: TreeRevision) -> None:
    with pytest.raises(InvalidInputError, match=r"file_path_max_size_bytes is 85.*86 bytes"):
        create_tree(effects, replace(SMALLEST, file_path_max_size_bytes=PATH_BYTES_MIN - 1), Changes("made"), revision)
    assert list(effects.store.list()) == []
    some_id = effects.new_id()
    assert len(build_data_file_path(some_id, some_id)) <= PATH_BYTES_MIN


@pytest.mark.parametrize("layout", ["tree", "tree-older"])
@pytest.mark.parametrize("strict", [True, False])
def test_the_smallest_path_limit_is_sufficient(effects: Effects, layout: str, *, strict: bool) -> None:
    lake = create_on_store(effects, layout=layout, strict=strict, settings=SMALLEST, engines=LocalEngines)
    lake.create_namespace("a-namespace-with-a-long-name")
    for number in range(6):
        name = f"a-namespace-with-a-long-name.`{number}-{'long' * 20}`"
        table = lake.create_table(name, "id int, day string", properties=DATA_FILES_ONLY)
        table.append([{"id": number, "day": "today"}])
    lake.create_view("a-namespace-with-a-long-name.view", "select 1 as x")
    lake.rollback(to=lake.version - 1)
    assert max(len(file.path) for file in effects.store.list() if isinstance(file, ObjectInfo)) == PATH_BYTES_MIN
    assert lake.maintenance.check().problems == ()


def test_a_definition_path_has_no_names_where_only_the_id_fits() -> None:
    some_id = "6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8"
    nameless = definition_path(Kind.TABLE, (), some_id, 200)
    for bytes_max in (len(nameless), len(nameless) + 1, len(nameless) + 2, 200):
        assert len(definition_path(Kind.TABLE, ("orders", "sales"), some_id, bytes_max)) <= bytes_max


def test_a_row_of_the_older_revision_takes_five_bytes_besides_its_names_and_its_path(effects: Effects) -> None:
    settings = LakehouseSettings(order=10, node_file_max_size_bytes=10 * (100 + 100 + 200 + 5))
    for revision, beside in ((NEWER, 4), (OLDER, 5)):
        row = 100 + 100 + 200 + beside
        assert len(revision.keys.key_of(Kind.TABLE, ("n", "t"), NameSizes(100, 100))) == 200 + beside
        assert shape_of(replace(settings, node_file_max_size_bytes=15 * row), revision).root_buffer_max == 5
    with pytest.raises(InvalidInputError, match=r"4050 bytes .* leaves no room"):
        create_tree(effects, settings, Changes("made"), OLDER)
    assert list(effects.store.list()) == []
    assert create_tree(effects, settings, Changes("made"), NEWER).latest().version == 0


def test_a_data_file_with_a_path_that_is_too_long_is_refused(effects: Effects, revision: TreeRevision) -> None:
    metastore = create_tree(effects, LakehouseSettings(), Changes("made"), revision)
    before = metastore.latest()
    for path, is_refused in ((f"data/{'x' * 196}", True), (f"data/{'x' * 195}", False), ("s3://b/" + "x" * 300, False)):
        delta = Delta(DeltaType.APPEND, Manifest((DataFile(path, 1, 1),)))
        if is_refused:
            with pytest.raises(InvalidInputError, match="201 bytes: this lakehouse allows 1 to 200"):
                commit_objects(metastore, before, (make_delta_locator(PARTITION, 1), delta))
            assert metastore.latest() is before
        else:
            commit_objects(metastore, metastore.latest(), (make_delta_locator(PARTITION, 1), delta))


@pytest.mark.parametrize("strict", ["false", "true"])
def test_check_reports_every_path_that_is_too_long(effects: Effects, revision: TreeRevision, strict: str) -> None:
    settings = replace(SMALLEST, properties={STRICT_TREE: strict, "tree.inline-definition-max-bytes": "0"})
    metastore = create_tree(effects, replace(settings, file_path_max_size_bytes=200), Changes("made"), revision)
    for number in range(8):
        commit_objects(metastore, metastore.latest(), make_namespace(f"n{number}"), make_table(f"n{number}", "t"))
    delta = Delta(DeltaType.APPEND, Manifest((DataFile(f"data/{'x' * 90}", 1, 1),)))
    commit_objects(metastore, metastore.latest(), (make_delta_locator(PARTITION, 1), delta))
    assert [
        problem for problem in metastore.problems(metastore.latest()) if "bytes: this lakehouse" in problem.rule
    ] == []
    # Another program may shrink the limit, which Mangrove refuses only at creation.
    commit_objects(
        metastore, metastore.latest(), settings=replace(metastore.latest().settings, file_path_max_size_bytes=30)
    )
    newest = metastore.latest()
    reported = {
        problem.path for problem in metastore.problems(newest) if "bytes: this lakehouse allows 1 to 30" in problem.rule
    }
    assert reported == {*metastore.files_of([newest]), f"data/{'x' * 90}"}
