"""Snapshots of earlier versions in published metadata."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import StaticTable

import mangrove
from mangrove.effects import build_effects, wait_for_pending
from mangrove.errors import InvalidInputError
from mangrove.iceberg.publish.history_writer import publish_history
from mangrove.iceberg.publish.metadata_writer import PublishedMetadata, PublishedTable
from mangrove.iceberg.publish.table_revisions import TableRevisions
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on_store
from mangrove.model.locators import TableLocator
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store
from mangrove.tables.iceberg_names import MAX_SNAPSHOTS, VERSION_KEY

SALES = TableLocator("shop", "sales")


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("shop")
    lake.create_table("shop.sales", "id bigint not null, what string", keys=["id"])
    return lake


def publish(lake: Lakehouse, version: int | None = None) -> PublishedTable:
    snapshot = lake._reading() if version is None else lake.metastore.at_version(version)
    return publish_history(lake.effects.store, TableRevisions.up_to(lake.metastore, snapshot, SALES))


def append(lake: Lakehouse, *ids: int) -> int:
    lake.table("shop.sales").append([{"id": one, "what": "old"} for one in ids])
    return lake.version


def versions_of(metadata: PublishedMetadata) -> list[int]:
    return [int(one.summary[VERSION_KEY] or "") for one in metadata.snapshots if one.summary is not None]


def operations_of(metadata: PublishedMetadata) -> list[str]:
    return [one.summary.operation.value for one in metadata.snapshots if one.summary is not None]


def read_rows(published: PublishedTable, snapshot_id: int) -> list[dict[str, Any]]:
    table = StaticTable.from_metadata(published.metadata_address)
    return sorted(table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist(), key=repr)


def check_snapshots(lake: Lakehouse, published: PublishedTable) -> None:
    """Check that each snapshot has the rows of its version, and that ids, parents and numbers are in order."""
    metadata = published.metadata
    for version, snapshot in zip(versions_of(metadata), metadata.snapshots, strict=True):
        past = lake.at(version)
        assert read_rows(published, snapshot.snapshot_id) == sorted(
            past.table("shop.sales").to_arrow().to_pylist(), key=repr
        )
        assert snapshot.timestamp_ms == past.snapshot.commit.created_at_millis
    ids = [one.snapshot_id for one in metadata.snapshots]
    assert [one.parent_snapshot_id for one in metadata.snapshots[1:]] == ids[:-1]
    numbers = [one.sequence_number or 0 for one in metadata.snapshots]
    assert numbers == sorted(set(numbers))
    assert metadata.last_sequence_number == numbers[-1]
    assert metadata.current_snapshot_id == ids[-1] == metadata.refs["main"].snapshot_id
    assert [one.snapshot_id for one in metadata.snapshot_log] == ids


def test_metadata_lists_a_snapshot_for_each_version_that_changed_the_table(lake: Lakehouse) -> None:
    made = [append(lake, 1, 2)]
    lake.create_table("shop.other", "id bigint")
    made.append(append(lake, 3))
    publish(lake)
    lake.table("shop.sales").upsert([{"id": 2, "what": "new"}])
    made.append(lake.version)
    lake.table("shop.sales").delete("id = 1")
    made.append(lake.version)
    published = publish(lake)
    assert versions_of(published.metadata) == made
    assert operations_of(published.metadata)[:3] == ["append", "append", "overwrite"]
    check_snapshots(lake, published)


def test_the_manifests_of_a_snapshot_name_the_files_that_it_added_and_removed(lake: Lakehouse) -> None:
    append(lake, 1, 2)
    append(lake, 3)
    lake.table("shop.sales").overwrite([{"id": 9, "what": "all"}])
    published = publish(lake)
    changes = []
    for snapshot in published.metadata.snapshots:
        manifests = [
            one for one in snapshot.manifests(PyArrowFileIO()) if one.added_snapshot_id == snapshot.snapshot_id
        ]
        entries = [
            entry for one in manifests for entry in one.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
        ]
        assert {entry.snapshot_id for entry in entries} == {snapshot.snapshot_id}
        rows = {
            status: sum(entry.data_file.record_count for entry in entries if entry.status is status)
            for status in ManifestEntryStatus
        }
        changes.append((rows[ManifestEntryStatus.ADDED], rows[ManifestEntryStatus.DELETED]))
    assert changes == [(2, 0), (1, 0), (1, 3)]


def test_an_added_position_delete_file_has_the_sequence_number_of_its_snapshot(lake: Lakehouse) -> None:
    append(lake, 1, 2)
    lake.table("shop.sales").upsert([{"id": 2, "what": "new"}])
    published = publish(lake)
    snapshot = published.metadata.snapshots[-1]
    added = [
        entry.sequence_number
        for manifest in snapshot.manifests(PyArrowFileIO())
        if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.content.value == 1
        for entry in manifest.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
    ]
    assert added == [snapshot.sequence_number]


def test_publishing_an_unchanged_table_writes_nothing(lake: Lakehouse) -> None:
    append(lake, 1)
    first = publish(lake)
    lake.create_table("shop.other", "id bigint")
    counting = open_on_store(build_effects(CountingStore(open_store(lake.uri))))
    store = counting.effects.store
    assert isinstance(store, CountingStore)
    before = store.requests
    assert publish(counting) == first
    assert (store.requests - before).puts == 0


def test_the_requests_of_a_publication_do_not_grow_with_the_history(lake: Lakehouse) -> None:
    counting = open_on_store(build_effects(CountingStore(open_store(lake.uri))))
    store = counting.effects.store
    assert isinstance(store, CountingStore)
    costs = []
    for number in range(12):
        append(lake, number)
        before = store.requests
        publish(counting)
        made = store.requests - before
        costs.append(made.puts + made.reads)
    # A manifest more or less, and a read or two more to find the newest version.
    assert costs[-1] <= costs[3] + 4


def test_the_list_is_limited_by_a_property(lake: Lakehouse) -> None:
    lake.table("shop.sales").alter({MAX_SNAPSHOTS: "2"})
    made = []
    for number in range(4):
        made.append(append(lake, number))
        published = publish(lake)
    assert versions_of(published.metadata) == made[-2:]
    check_snapshots(lake, published)
    for invalid in ("-3", "0", "many", "1000000000"):
        with pytest.raises(
            InvalidInputError, match=f"invalid {MAX_SNAPSHOTS} '{invalid}' of shop.sales; expected 1 to"
        ):
            lake.table("shop.sales").alter({MAX_SNAPSHOTS: invalid})
    assert lake.version == made[-1]


def test_states_that_nobody_published_are_listed_up_to_a_limit_and_without_gaps(lake: Lakehouse) -> None:
    append(lake, 100)
    publish(lake)
    made = [append(lake, number) for number in range(25)]
    published = publish(lake)
    assert versions_of(published.metadata) == made[-20:]
    check_snapshots(lake, published)


def test_after_a_rollback_the_log_has_the_restored_snapshot_twice(lake: Lakehouse) -> None:
    first = append(lake, 1)
    publish(lake)
    append(lake, 2)
    publish(lake)
    lake.rollback(first)
    metadata = publish(lake).metadata
    ids = [one.snapshot_id for one in metadata.snapshots]
    assert len(ids) == 2
    assert [one.snapshot_id for one in metadata.snapshot_log] == [*ids, ids[0]]
    assert metadata.current_snapshot_id == ids[0]
    append(lake, 3)
    published = publish(lake)
    assert published.metadata.snapshots[-1].parent_snapshot_id == ids[0]
    assert read_rows(published, ids[1]) == [{"id": 1, "what": "old"}, {"id": 2, "what": "old"}]


def test_the_snapshots_stay_listed_after_renames_of_the_table_and_its_namespace(lake: Lakehouse) -> None:
    made = [append(lake, 1), append(lake, 2)]
    before = publish(lake)
    lake.create_namespace("other")
    lake.table("shop.sales").rename("other.old")
    append_as = lake.table("other.old").append
    append_as([{"id": 3, "what": "c"}])
    made.append(lake.version)
    lake.rename_namespace("other", "attic")
    lake.table("attic.old").rename("shop.sales")
    after = publish(lake)
    assert versions_of(after.metadata) == made
    assert [one.snapshot_id for one in after.metadata.snapshots[:2]] == [
        one.snapshot_id for one in before.metadata.snapshots
    ]
    assert len(read_rows(after, after.metadata.snapshots[1].snapshot_id)) == 2
    assert len(read_rows(after, after.metadata.snapshots[2].snapshot_id)) == 3


def test_the_snapshots_before_a_rename_are_found_if_none_was_published(lake: Lakehouse) -> None:
    made = [append(lake, 1), append(lake, 2)]
    lake.table("shop.sales").rename("shop.first")
    lake.create_table("shop.sales", "id bigint")
    lake.table("shop.sales").append([{"id": 9}])
    lake.table("shop.first").append([{"id": 3, "what": "c"}])
    made.append(lake.version)
    first = TableLocator("shop", "first")
    published = publish_history(lake.effects.store, TableRevisions.up_to(lake.metastore, lake._reading(), first))
    assert versions_of(published.metadata) == made
    assert [len(read_rows(published, one.snapshot_id)) for one in published.metadata.snapshots] == [1, 2, 3]


def test_a_rename_alone_publishes_nothing(lake: Lakehouse) -> None:
    append(lake, 1)
    before = publish(lake)
    lake.table("shop.sales").rename("shop.first")
    first = TableLocator("shop", "first")
    after = publish_history(lake.effects.store, TableRevisions.up_to(lake.metastore, lake._reading(), first))
    assert after.metadata_address == before.metadata_address


def test_earlier_snapshots_keep_their_columns(lake: Lakehouse) -> None:
    append(lake, 1)
    publish(lake)
    with lake.table("shop.sales").update_schema() as update:
        update.add_column("more", "int")
    lake.table("shop.sales").append([{"id": 2, "what": "b", "more": 5}])
    published = publish(lake)
    table = StaticTable.from_metadata(published.metadata_address)
    first = published.metadata.snapshots[0]
    assert table.scan(snapshot_id=first.snapshot_id).to_arrow().column_names == ["id", "what"]
    assert table.scan().to_arrow().column_names == ["id", "what", "more"]


def test_no_snapshot_of_an_expired_version_is_listed_after_a_vacuum(lake: Lakehouse) -> None:
    append(lake, 1, 2)
    publish(lake)
    lake.table("shop.sales").overwrite([{"id": 3, "what": "all"}])
    publish(lake)
    lake.alter(minimum_versions_to_keep=1, maximum_version_age_millis=0)
    last = append(lake, 4)
    publish(lake)
    assert lake.maintenance.expire(alone=True).versions
    lake.maintenance.vacuum(alone=True)
    published = publish(lake)
    assert versions_of(published.metadata) == [last]
    check_snapshots(lake, published)


def test_a_vacuum_keeps_the_files_of_all_listed_snapshots(lake: Lakehouse) -> None:
    append(lake, 1, 2)
    publish(lake)
    lake.table("shop.sales").upsert([{"id": 2, "what": "new"}])
    published = publish(lake)
    lake.effects.store.put(f"data/{lake.table('shop.sales').id}/stray.parquet", b"")
    # The metadata file that the newer one replaced goes too.
    assert len(lake.maintenance.vacuum(alone=True).paths) == 2
    assert publish(lake) == published
    check_snapshots(lake, published)


def test_an_earlier_version_lists_the_snapshots_up_to_it(lake: Lakehouse) -> None:
    made = [append(lake, number) for number in range(3)]
    publish(lake)
    published = publish(lake, made[1])
    assert versions_of(published.metadata) == made[:2]
    check_snapshots(lake, published)


def tags_of(published: PublishedTable) -> dict[str, int]:
    """Return the versions of the tagged snapshots by tag."""
    metadata = published.metadata
    versions = dict(zip([one.snapshot_id for one in metadata.snapshots], versions_of(metadata), strict=True))
    return {name: versions[ref.snapshot_id] for name, ref in metadata.refs.items() if ref.snapshot_ref_type == "tag"}


def test_a_named_version_is_a_tag_of_the_snapshot_that_it_has(lake: Lakehouse) -> None:
    first = append(lake, 1)
    lake.tag("main")
    lake.create_table("shop.other", "id bigint")
    lake.tag("with-other")
    second = append(lake, 2)
    lake.tag("two")
    published = publish(lake)
    assert tags_of(published) == {"with-other": first, "two": second}
    assert published.metadata.refs["main"].snapshot_id == published.metadata.current_snapshot_id
    table = StaticTable.from_metadata(published.metadata_address)
    named = table.snapshot_by_name("with-other")
    assert named is not None
    assert table.scan(snapshot_id=named.snapshot_id).to_arrow().num_rows == 1


def test_tags_follow_the_names_while_the_table_is_unchanged(lake: Lakehouse) -> None:
    made = append(lake, 1)
    without = publish(lake)
    lake.tag("one")
    tagged = publish(lake)
    assert tags_of(tagged) == {"one": made}
    assert tagged.file_name != without.file_name
    assert publish(lake) == tagged
    later = append(lake, 2)
    lake.tag("two")
    assert tags_of(publish(lake)) == {"one": made, "two": later}
    lake.drop_tag("one")
    assert tags_of(publish(lake)) == {"two": later}
    lake.drop_tag("two")
    assert tags_of(publish(lake)) == {}


def test_a_tag_after_a_rollback_is_the_restored_snapshot(lake: Lakehouse) -> None:
    first = append(lake, 1)
    publish(lake)
    append(lake, 2)
    publish(lake)
    lake.rollback(first)
    lake.tag("restored")
    assert tags_of(publish(lake)) == {"restored": first}


def test_a_named_version_before_the_listed_snapshots_is_no_tag(lake: Lakehouse) -> None:
    lake.table("shop.sales").alter({MAX_SNAPSHOTS: "1"})
    append(lake, 1)
    lake.tag("old")
    append(lake, 2)
    assert tags_of(publish(lake)) == {}


def test_a_vacuum_keeps_the_metadata_file_with_the_newest_tags(lake: Lakehouse) -> None:
    append(lake, 1)
    publish(lake)
    lake.tag("one")
    published = publish(lake)
    lake.effects.store.put(f"data/{lake.table('shop.sales').id}/stray.parquet", b"")
    for path in Path(lake.uri.removeprefix("file://")).glob("data/*/metadata/*.metadata.json"):
        seconds = 2_000_000_000 if path.name == published.file_name else 1_000_000_000
        os.utime(path, (seconds, seconds))
    assert len(lake.maintenance.vacuum(alone=True).paths) == 2
    assert publish(lake) == published
    check_snapshots(lake, published)


def test_a_copied_lakehouse_publishes_its_own_metadata(lake: Lakehouse, tmp_path: Path) -> None:
    append(lake, 1)
    publish(lake)
    wait_for_pending(lake.effects, 60.0)
    shutil.copytree(lake.uri.removeprefix("file://"), tmp_path / "copy")
    copy = mangrove.open(tmp_path / "copy")
    published = publish(copy)
    assert published.folder.startswith(copy.uri)
    check_snapshots(copy, published)
    assert publish(copy) == published
