"""PyIceberg writes: what it commits through REST is one commit of ours, and both sides read the same rows."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType
from tests.rest.conftest import TOKEN, counted, served

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

Opening = Callable[..., RestCatalog]
WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)
FIELDS: list[Any] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("name", pa.string()),
    pa.field("day", pa.date32()),
]
ARROW = pa.schema(FIELDS)


def rows_of(*ids: int, name: str = "n", day: date = date(2026, 1, 1)) -> pa.Table:
    return pa.Table.from_pylist([{"id": one, "name": f"{name}{one}", "day": day} for one in ids], schema=ARROW)


def sorted_rows(found: Any) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda row: row["id"])


@pytest.fixture(params=["tree", "deltacat"])
def written_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("sales")
    return lake


@pytest.fixture
def writing(written_lake: Lakehouse, catalog_of: Opening) -> Iterator[RestCatalog]:
    with served(counted(written_lake), WRITABLE) as address:
        yield catalog_of(address, token=TOKEN)


def check_same(lake: Lakehouse, table: IcebergTable, name: str) -> list[dict[str, Any]]:
    """Return the rows that both sides see, having checked that they are the same, and that the lakehouse is sound."""
    ours = sorted_rows(lake.table(name).to_arrow())
    assert sorted_rows(table.refresh().scan().to_arrow()) == ours
    assert lake.maintenance.check().problems == ()
    return ours


def test_a_table_is_created_and_rows_are_appended(written_lake: Lakehouse, writing: RestCatalog) -> None:
    before = written_lake.version
    table = writing.create_table("sales.orders", ARROW, properties={"owner": "ana"})
    table.append(rows_of(1, 2))
    table.append(rows_of(3))
    assert written_lake.version == before + 3
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [1, 2, 3]
    assert written_lake.table("sales.orders").properties["owner"] == "ana"
    assert table.metadata.properties["owner"] == "ana"


def test_the_snapshot_keeps_the_id_that_the_client_gave_it(written_lake: Lakehouse, writing: RestCatalog) -> None:
    table = writing.create_table("sales.orders", ARROW)
    table.append(rows_of(1))
    known = table.metadata.current_snapshot_id
    assert writing.load_table("sales.orders").metadata.current_snapshot_id == known
    written_lake.table("sales.orders").append([{"id": 2, "name": "b", "day": None}])
    assert writing.load_table("sales.orders").metadata.current_snapshot_id != known


def test_alternating_writes_of_mangrove_and_a_client_are_all_read(
    written_lake: Lakehouse, writing: RestCatalog
) -> None:
    ours = written_lake.create_table("sales.orders", "id bigint not null, name string, day date", keys=["id"])
    ours.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    table = writing.load_table("sales.orders")
    table.append(rows_of(3, 4))
    ours.upsert([{"id": 3, "name": "changed"}])
    ours.delete("id = 1")
    table.refresh().append(rows_of(5))
    assert [(row["id"], row["name"]) for row in check_same(written_lake, table, "sales.orders")] == [
        (2, "b"),
        (3, "changed"),
        (4, "n4"),
        (5, "n5"),
    ]


def test_a_client_sets_keys_and_partitions_reads_a_tag_and_registers_a_table(
    written_lake: Lakehouse, writing: RestCatalog
) -> None:
    table = writing.create_table("sales.orders", ARROW)
    table.append(rows_of(1))
    written_lake.tag("first")
    with table.update_schema() as schema:
        schema.set_identifier_fields("id")
    with table.update_spec() as spec:
        spec.add_identity("name")
    table.append(rows_of(2))
    ours = written_lake.table("sales.orders")
    assert (ours.keys, ours.partition_by) == (("id",), ("name",))
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [1, 2]
    first = table.snapshot_by_name("first")
    assert first is not None
    assert table.scan(snapshot_id=first.snapshot_id).to_arrow().num_rows == 1
    with pytest.raises(BadRequestError, match="mangrove expire"):
        table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[1].snapshot_id).commit()
    writing.drop_table("sales.orders")
    restored = writing.register_table("sales.orders", table.metadata_location)
    assert [row["id"] for row in check_same(written_lake, restored, "sales.orders")] == [1, 2]


def test_a_name_that_exists_or_a_namespace_that_does_not_has_the_standard_sentence(writing: RestCatalog) -> None:
    writing.create_table("sales.orders", ARROW)
    with pytest.raises(TableAlreadyExistsError, match=r"Table already exists: sales\.orders"):
        writing.create_table("sales.orders", ARROW)
    with pytest.raises(NamespaceAlreadyExistsError, match="Namespace already exists: sales"):
        writing.create_namespace("sales")
    with pytest.raises(NoSuchNamespaceError, match="Namespace does not exist: nowhere"):
        writing.create_table("nowhere.orders", ARROW)


def test_a_client_deletes_rows_of_upserted_files(written_lake: Lakehouse, writing: RestCatalog) -> None:
    ours = written_lake.create_table("sales.orders", "id bigint not null, name string, day date", keys=["id"])
    ours.append([{"id": number, "name": "old"} for number in range(6)])
    ours.upsert([{"id": number, "name": "new"} for number in (1, 2)])
    table = writing.load_table("sales.orders")
    table.delete("id = 1")
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [0, 2, 3, 4, 5]
    table.delete("name = 'new'")
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [0, 3, 4, 5]


def test_a_client_overwrites_all_or_some_rows(written_lake: Lakehouse, writing: RestCatalog) -> None:
    table = writing.create_table("sales.orders", ARROW)
    table.append(rows_of(1, 2, 3))
    table.append(rows_of(4, 5))
    table.overwrite(rows_of(7, 8), overwrite_filter="id > 3")
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [1, 2, 3, 7, 8]
    table.overwrite(rows_of(9))
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [9]


def partitioned(writing: RestCatalog) -> IcebergTable:
    schema = IcebergSchema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType(), required=False),
        NestedField(3, "day", DateType(), required=False),
    )
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "by_day"))
    order = SortOrder(SortField(1, IdentityTransform()))
    made: IcebergTable = writing.create_table("sales.parts", schema, partition_spec=spec, sort_order=order)
    return made


def test_a_dynamic_overwrite_replaces_the_partitions_of_its_rows(written_lake: Lakehouse, writing: RestCatalog) -> None:
    table = partitioned(writing)
    first, second, third = (date(2026, 1, day) for day in (1, 2, 3))
    table.append(pa.concat_tables([rows_of(1, 2, day=first), rows_of(3, day=second)]))
    ours = written_lake.table("sales.parts")
    assert (ours.partition_by, ours.sort_by) == (("day",), ("id asc nulls first",))
    table.dynamic_partition_overwrite(pa.concat_tables([rows_of(4, day=second), rows_of(5, day=third)]))
    assert [row["id"] for row in check_same(written_lake, table, "sales.parts")] == [1, 2, 4, 5]
    assert len(ours.scan("day = date '2026-01-03'").files()) == 1
    ours.append([{"id": 6, "name": "ours", "day": second}])
    table.refresh().delete(f"day = '{second.isoformat()}'")
    assert [row["id"] for row in check_same(written_lake, table, "sales.parts")] == [1, 2, 5]


def test_an_upsert_of_the_client_changes_and_adds_rows(written_lake: Lakehouse, writing: RestCatalog) -> None:
    written_lake.create_table("sales.orders", "id bigint not null, name string, day date", keys=["id"])
    table = writing.load_table("sales.orders")
    table.append(rows_of(1, 2, 3))
    done = table.upsert(rows_of(2, 4, name="up"))
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    names = [(row["id"], row["name"]) for row in check_same(written_lake, table, "sales.orders")]
    assert names == [(1, "n1"), (2, "up2"), (3, "n3"), (4, "up4")]


def test_columns_are_added_renamed_moved_widened_and_dropped(written_lake: Lakehouse, writing: RestCatalog) -> None:
    written_lake.create_table("sales.orders", "id int not null, name string, day date")
    table = writing.load_table("sales.orders")
    table.append(rows_of(1).cast(pa.schema([pa.field("id", pa.int32(), nullable=False), *list(ARROW)[1:]])))
    with table.update_schema() as change:
        change.add_column("note", StringType(), doc="what people say")
        change.rename_column("name", "label")
        change.update_column("id", LongType())
        change.move_first("day")
    ours = written_lake.table("sales.orders")
    assert ours.schema is not None
    assert ours.schema.names == ("day", "id", "label", "note")
    table.append(
        pa.Table.from_pylist(
            [{"day": None, "id": 2**40, "label": "b", "note": "c"}], schema=table.scan().to_arrow().schema
        )
    )
    with table.update_schema() as change:
        change.delete_column("day")
    assert check_same(written_lake, table, "sales.orders") == [
        {"id": 1, "label": "n1", "note": None},
        {"id": 2**40, "label": "b", "note": "c"},
    ]


def test_columns_and_rows_change_in_one_commit(written_lake: Lakehouse, writing: RestCatalog) -> None:
    table = writing.create_table("sales.orders", ARROW)
    table.append(rows_of(1))
    before = written_lake.version
    with table.transaction() as change:
        with change.update_schema() as columns:
            columns.add_column("note", StringType())
        change.set_properties(stage="two")
        change.append(
            pa.Table.from_pylist(
                [{"id": 2, "name": "b", "day": None, "note": "new"}], schema=ARROW.append(pa.field("note", pa.string()))
            )
        )
    assert written_lake.version == before + 1
    assert [row["note"] for row in check_same(written_lake, table, "sales.orders")] == [None, "new"]


def test_properties_are_put_and_removed(written_lake: Lakehouse, writing: RestCatalog) -> None:
    table = writing.create_table("sales.orders", ARROW, properties={"a": "1", "b": "2"})
    with table.transaction() as change:
        change.set_properties(c="3")
        change.remove_properties("a")
    assert dict(written_lake.table("sales.orders").properties) == {"b": "2", "c": "3"}
    with pytest.raises(BadRequestError, match=r"gc\.enabled"), table.transaction() as change:
        change.set_properties({"gc.enabled": "true"})


@pytest.mark.parametrize("retries", ["0", "4"])
def test_one_of_two_concurrent_writers_gets_a_conflict_and_retries(
    written_lake: Lakehouse, writing: RestCatalog, retries: str
) -> None:
    first = writing.create_table("sales.orders", ARROW, properties={"commit.retry.num-retries": retries})
    second = writing.load_table("sales.orders")
    first.append(rows_of(1))
    if retries == "0":
        with pytest.raises(CommitFailedException, match="reload the table"):
            second.append(rows_of(2))
        second.refresh()
    second.append(rows_of(2))
    assert [row["id"] for row in check_same(written_lake, second, "sales.orders")] == [1, 2]


def test_a_table_is_staged_and_created_with_its_first_rows(written_lake: Lakehouse, writing: RestCatalog) -> None:
    before = written_lake.version
    with writing.create_table_transaction("sales.orders", ARROW, properties={"owner": "ana"}) as change:
        assert written_lake.version == before
        change.append(rows_of(1, 2))
    assert written_lake.version == before + 1
    table = writing.load_table("sales.orders")
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [1, 2]
    with pytest.raises(TableAlreadyExistsError):
        writing.create_table("sales.orders", ARROW)


def test_maintenance_handles_files_of_a_client(written_lake: Lakehouse, writing: RestCatalog) -> None:
    table = writing.create_table("sales.orders", ARROW)
    began = written_lake.version
    for number in range(4):
        table.append(rows_of(number))
    table.delete("id = 2")
    ours = written_lake.table("sales.orders")
    changed = ours.changes(began).to_pylist()
    assert sorted(row["id"] for row in changed) == [0, 1, 3]
    written_lake.maintenance.vacuum(alone=True)
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [0, 1, 3]
    assert ours.compact().files_written == 1
    written_lake.maintenance.vacuum(alone=True)
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [0, 1, 3]
    table.refresh().append(rows_of(9))
    assert [row["id"] for row in check_same(written_lake, table, "sales.orders")] == [0, 1, 3, 9]


def test_tables_are_renamed_and_dropped(written_lake: Lakehouse, writing: RestCatalog) -> None:
    table = writing.create_table("sales.orders", ARROW)
    table.append(rows_of(1))
    full = written_lake.version
    moved = writing.rename_table("sales.orders", "sales.sold")
    assert [row["id"] for row in check_same(written_lake, moved, "sales.sold")] == [1]
    with pytest.raises(NoSuchTableError):
        writing.rename_table("sales.orders", "sales.other")
    writing.purge_table("sales.sold")
    assert not writing.table_exists("sales.sold")
    assert written_lake.at(full).table("sales.orders").to_arrow().num_rows == 1
    with pytest.raises(NoSuchTableError):
        writing.drop_table("sales.sold")


def test_namespaces_are_created_changed_and_dropped(written_lake: Lakehouse, writing: RestCatalog) -> None:
    writing.create_namespace("more", {"owner": "bo", "comment": "for later"})
    assert written_lake.namespace("more").description == "for later"
    done = writing.update_namespace_properties("more", {"comment", "never"}, {"owner": "cy", "new": "1"})
    assert (sorted(done.updated), done.removed, done.missing) == (["new", "owner"], ["comment"], ["never"])
    assert writing.load_namespace_properties("more") == {"owner": "cy", "new": "1"}
    with pytest.raises(NamespaceAlreadyExistsError):
        writing.create_namespace("more")
    writing.create_table("more.t", ARROW)
    with pytest.raises(NamespaceNotEmptyError):
        writing.drop_namespace("more")
    writing.drop_table("more.t")
    writing.drop_namespace("more")
    assert not writing.namespace_exists("more")
    with pytest.raises(NoSuchNamespaceError):
        writing.drop_namespace("more")
    with pytest.raises(NoSuchNamespaceError):
        writing.create_table("more.t", ARROW)


def test_the_catalog_overrides_a_requested_location(written_lake: Lakehouse, writing: RestCatalog) -> None:
    table = writing.create_table("sales.placed", ARROW, location="s3://elsewhere/t")
    assert table.location().startswith(f"{written_lake.uri.rstrip('/')}/data/")
    assert table.location() == writing.load_table("sales.placed").location()


def test_columns_can_be_required_and_get_any_type_only_while_a_table_is_empty(writing: RestCatalog) -> None:
    table = writing.create_table("sales.required", ARROW)
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.add_column("amount", LongType(), required=True)
        change.update_column("name", LongType())
    schema = writing.load_table("sales.required").schema()
    assert schema.find_field("amount").required
    assert schema.find_field("name").field_type == LongType()
    table = writing.create_table("sales.filled", ARROW)
    table.append(rows_of(1))
    change = table.update_schema(allow_incompatible_changes=True).add_column("amount", LongType(), required=True)
    with pytest.raises(BadRequestError, match="existing rows have no value"):
        change.commit()


def test_a_sort_order_that_comes_again_has_its_id_again(writing: RestCatalog) -> None:
    table = writing.create_table("sales.ordered", ARROW)
    for column in ("id", "name", "id"):
        with table.update_sort_order() as change:
            change.asc(column, IdentityTransform())
    found = writing.load_table("sales.ordered")
    assert found.sort_order().order_id == 1
    assert [found.sort_orders()[number].fields[0].source_id for number in (1, 2)] == [1, 2]


def test_metadata_lists_the_metadata_files_before_it(writing: RestCatalog) -> None:
    table = writing.create_table("sales.logged", ARROW)
    locations = [table.metadata_location]
    for number in range(3):
        table = table.transaction().set_properties({"n": str(number)}).commit_transaction()
        locations.append(table.metadata_location)
    assert [one.metadata_file for one in table.metadata.metadata_log] == locations[:-1]
    table = table.transaction().set_properties({"write.metadata.previous-versions-max": "2"}).commit_transaction()
    assert [one.metadata_file for one in table.metadata.metadata_log] == locations[-2:]


def set_main_to(snapshot_id: int) -> SetSnapshotRefUpdate:
    document = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    return SetSnapshotRefUpdate.model_validate(document)


@pytest.mark.parametrize("version", [2, 3])
def test_a_rollback_restores_the_rows_of_a_snapshot_under_the_present_columns(
    written_lake: Lakehouse, writing: RestCatalog, version: int
) -> None:
    written_lake.create_table(
        "sales.rolled",
        "id bigint not null, name string, day date",
        keys=["id"],
        properties={"format-version": str(version)},
    )
    ours = written_lake.table("sales.rolled")
    ours.append(rows_of(1, 2))
    ours.upsert(rows_of(2, 3, name="new"))
    before = check_same(written_lake, writing.load_table("sales.rolled"), "sales.rolled")
    table = writing.load_table("sales.rolled")
    wanted = table.metadata.current_snapshot_id
    ours.delete("id < 3")
    ours.upsert(rows_of(4))
    with table.update_schema() as update:
        update.add_column("more", LongType())
    table = table.refresh().transaction().set_properties({"owner": "ana"}).commit_transaction()
    made = written_lake.version
    table.manage_snapshots().rollback_to_snapshot(wanted).commit()
    assert written_lake.version == made + 1
    assert table.metadata.current_snapshot_id == wanted
    assert check_same(written_lake, table, "sales.rolled") == [{**row, "more": None} for row in before]
    assert table.metadata.properties["owner"] == "ana"
    assert written_lake.at(made).table("sales.rolled").count() == 2
    ours.upsert(rows_of(5))
    table = writing.load_table("sales.rolled")
    assert table.current_snapshot().parent_snapshot_id == wanted
    assert len(check_same(written_lake, table, "sales.rolled")) == 4
    latest = table.metadata.current_snapshot_id
    table.manage_snapshots().rollback_to_snapshot(latest).commit()
    assert written_lake.version == made + 2
    with pytest.raises(BadRequestError, match="Cannot set main to unknown snapshot"):
        table.catalog.commit_table(table, (), (set_main_to(12),))


def test_a_rollback_forward_to_a_later_snapshot_restores_its_rows(
    written_lake: Lakehouse, writing: RestCatalog
) -> None:
    table = writing.create_table("sales.rolled", ARROW)
    for number in (1, 2):
        table.append(rows_of(number))
    first, second = (one.snapshot_id for one in table.snapshots())
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert [row["id"] for row in check_same(written_lake, table, "sales.rolled")] == [1]
    table.manage_snapshots().set_current_snapshot(snapshot_id=second).commit()
    assert [row["id"] for row in check_same(written_lake, table, "sales.rolled")] == [1, 2]
    assert table.metadata.current_snapshot_id == second
    assert [one.snapshot_id for one in table.metadata.snapshot_log] == [first, second, first, second]


def test_a_client_writes_after_a_rollback_of_a_version_that_the_server_has_not_published(
    written_lake: Lakehouse, writing: RestCatalog
) -> None:
    ours = written_lake.create_table("sales.rolled", "id bigint not null, name string, day date")
    ours.append(rows_of(1))
    stale, before = writing.load_table("sales.rolled"), written_lake.version
    ours.append(rows_of(2))
    written_lake.rollback(to=before)
    fresh = writing.load_table("sales.rolled")
    assert [len(one.metadata.snapshots) for one in (stale, fresh)] == [1, 2]
    assert [one.snapshot_id for one in fresh.metadata.snapshot_log][::2] == [stale.metadata.current_snapshot_id] * 2
    fresh.append(rows_of(3))
    stale.append(rows_of(4))
    assert [row["id"] for row in sorted_rows(ours.to_arrow())] == [1, 3, 4]


def test_a_rollback_that_present_columns_contradict_is_rejected(written_lake: Lakehouse, writing: RestCatalog) -> None:
    written_lake.create_table("sales.rolled", "id bigint, name string, day date")
    ours = written_lake.table("sales.rolled")
    ours.append([{"id": None}])
    first = writing.load_table("sales.rolled").metadata.current_snapshot_id
    ours.overwrite(rows_of(1))
    ours.update_schema().set_not_null("id").commit()
    table, before = writing.load_table("sales.rolled"), written_lake.version
    with pytest.raises(BadRequestError, match="a column became required"):
        table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert written_lake.version == before
    ours.rollback(to=before - 2)
    table = writing.load_table("sales.rolled")
    assert table.metadata.current_snapshot_id == first
    assert table.scan().to_arrow().to_pylist() == [{"id": None, "name": None, "day": None}]


def test_a_rollback_of_a_client_is_refused_if_the_table_changed(written_lake: Lakehouse, writing: RestCatalog) -> None:
    table = writing.create_table("sales.rolled", ARROW)
    for number in (1, 2):
        table.append(rows_of(number))
    written_lake.table("sales.rolled").append(rows_of(3))
    with pytest.raises(CommitFailedException, match="has changed"):
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    assert written_lake.table("sales.rolled").count() == 3


def test_invalid_tables_are_rejected_and_nothing_changes(written_lake: Lakehouse, writing: RestCatalog) -> None:
    before = written_lake.version
    with pytest.raises(BadRequestError, match="'format-version' '4'; expected 2 or 3"):
        writing.create_table("sales.orders", ARROW, properties={"format-version": "4"})
    with pytest.raises(BadRequestError, match="one level"):
        writing.create_namespace(("a", "b"))
    with pytest.raises(BadRequestError, match="mangrove ingest"):
        writing.register_table("sales.other", "file:///tmp/none.metadata.json")
    assert written_lake.version == before
