"""What the metadata and the manifests of a shown table say, beside its rows."""

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import StaticTable

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.publish.metadata_writer import publish_table
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, TableVersion
from mangrove.model.partitioning import PartitionScheme, parse_partition_scheme
from mangrove.model.values import Value
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.tables.table_state import PartitionLog, TableState

SCHEMA = parse_schema("id bigint not null, what string")
BY_ID = parse_partition_scheme(["id"], SCHEMA)
BY_WHAT = replace(parse_partition_scheme(["what"], SCHEMA), id="1")


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    found = mangrove.create(tmp_path / "lake")
    found.create_namespace("shop")
    return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "files")


def state_of(version: TableVersion, *values: tuple[Value | None, ...] | None, **more: Any) -> TableState:
    """Return a table of files with these partition values, which nobody opens."""
    files = [
        DataFile(f"data/t/{number}.parquet", 100, 10, partition_values=one, **more) for number, one in enumerate(values)
    ]
    logs = (PartitionLog((), (Delta(DeltaType.APPEND, Manifest(tuple(files)), position=1),)),)
    return TableState("shop.sales", "t", version, logs=logs)


def entries(store: Store, state: TableState) -> list[Any]:
    found = StaticTable.from_metadata(publish_table(store, state, 1).metadata_address)
    snapshot = found.current_snapshot()
    assert snapshot is not None
    return [
        entry.data_file
        for manifest in snapshot.manifests(found.io)
        for entry in manifest.fetch_manifest_entry(found.io)
    ]


def test_no_engine_may_delete_files_that_other_versions_need(lake: Lakehouse) -> None:
    table = lake.create_table("shop.sales", "id bigint", properties={"gc.enabled": "true", "owner": "ana"})
    properties = StaticTable.from_metadata(table.iceberg()).properties
    assert properties["gc.enabled"] == "false"
    assert properties["owner"] == "ana"


def test_the_table_uuid_is_derived_from_the_table_id(lake: Lakehouse, store: Store) -> None:
    table = lake.create_table("shop.sales", "id bigint")
    assert StaticTable.from_metadata(table.iceberg()).metadata.table_uuid == uuid.UUID(table.id)
    version = TableVersion(1, SCHEMA)
    first, second = (
        publish_table(store, state_of(version, None), 1),
        publish_table(store, state_of(version, None, None), 1),
    )
    assert first.metadata.table_uuid == second.metadata.table_uuid


def test_columns_without_ids_are_mapped_by_their_current_names(lake: Lakehouse) -> None:
    table = lake.create_table("shop.sales", "id bigint, what struct<name string>")
    table.update_schema().rename_column("what", "thing").commit()
    mapping = json.loads(StaticTable.from_metadata(table.iceberg()).properties["schema.name-mapping.default"])
    assert [(one["field-id"], one["names"]) for one in mapping] == [(1, ["id"]), (2, ["thing"])]
    assert mapping[1]["fields"][0]["names"] == ["name"]


def test_the_sort_order_of_a_table_and_its_files_is_published(lake: Lakehouse) -> None:
    table = lake.create_table("shop.sales", "id bigint, what string", sort_by=["what desc", "id"])
    table.append([{"id": 1, "what": "b"}, {"id": 2, "what": "a"}])
    found = StaticTable.from_metadata(table.iceberg())
    assert [(field.source_id, field.direction.value) for field in found.sort_order().fields] == [
        (2, "desc"),
        (1, "asc"),
    ]
    (task,) = found.scan().plan_files()
    assert task.file.sort_order_id == found.metadata.default_sort_order_id != 0


def test_files_of_one_scheme_belong_to_its_spec(store: Store) -> None:
    version = TableVersion(1, SCHEMA, partition_scheme=BY_WHAT)
    found = entries(store, state_of(version, ("a",), (None,), None))
    places = sorted((file.spec_id, repr(file.partition)) for file in found)
    assert places == [(0, "Record[None]"), (0, "Record[a]"), (1, "Record[]")]


def test_a_file_with_a_null_partition_value_of_a_required_column_is_unpartitioned(store: Store) -> None:
    version = TableVersion(1, SCHEMA, partition_scheme=BY_ID)
    assert [file.spec_id for file in entries(store, state_of(version, (1,), (None,)))] == [0, 1]


def test_a_table_partitioned_by_a_struct_field_is_read_completely(lake: Lakehouse) -> None:
    table = lake.create_table("shop.sales", "id bigint, what struct<name string not null>", partition_by=["what.name"])
    table.append([{"id": 1, "what": {"name": "a"}}, {"id": 2, "what": None}])
    found = StaticTable.from_metadata(table.iceberg()).scan().to_arrow().to_pylist()
    assert sorted(found, key=repr) == sorted(table.to_arrow().to_pylist(), key=repr)


def test_a_file_without_a_recorded_scheme_belongs_to_the_oldest_one_if_its_values_fit(store: Store) -> None:
    version = TableVersion(1, SCHEMA, partition_scheme=BY_WHAT, earlier_partition_schemes=(BY_ID,))
    state = state_of(version, (1,), ("a",))
    assert sorted(file.spec_id for file in entries(store, state)) == [0, 1]
    metadata = publish_table(store, state, 1).metadata
    assert [[field.name for field in spec.fields] for spec in metadata.partition_specs] == [["id"], [], ["what"]]
    assert metadata.default_spec_id == 2


def test_a_table_that_is_no_longer_partitioned_has_the_empty_spec(store: Store) -> None:
    version = TableVersion(1, SCHEMA, partition_scheme=PartitionScheme(id="2"), earlier_partition_schemes=(BY_ID,))
    state = state_of(version, (1,))
    assert publish_table(store, state, 1).metadata.default_spec_id == 1
    assert {file.spec_id for file in entries(store, state)} == {0}


def test_a_partition_whose_column_was_widened_or_renamed_is_read_by_its_value(lake: Lakehouse) -> None:
    table = lake.create_table("shop.sales", "id int, what string", partition_by=["id"])
    table.append([{"id": 1, "what": "a"}, {"id": 2, "what": "b"}])
    table.update_schema().widen("id", "bigint").commit()
    table.update_schema().rename_column("id", "number").commit()
    table.append([{"number": 2**40, "what": "c"}])
    found = StaticTable.from_metadata(table.iceberg())
    for number in (1, 2, 2**40):
        own = table.to_arrow(where=f"number = {number}").to_pylist()
        assert found.scan(row_filter=f"number = {number}").to_arrow().to_pylist() == own
        assert len(list(found.scan(row_filter=f"number = {number}").plan_files())) == 1


def test_bounds_let_a_reader_skip_files(lake: Lakehouse) -> None:
    table = lake.create_table("shop.sales", "id bigint, what string")
    for number in range(5):
        table.append([{"id": 10 * number + one, "what": f"{number}"} for one in range(10)])
    found = StaticTable.from_metadata(table.iceberg())
    assert len(list(found.scan(row_filter="id = 33").plan_files())) == 1
    assert len(list(found.scan(row_filter="what >= '3'").plan_files())) == 2


def test_position_deletes_name_one_file_by_their_bounds_and_have_iceberg_s_columns(lake: Lakehouse) -> None:
    table = lake.create_table("shop.sales", "id bigint not null", keys=["id"])
    table.append([{"id": number} for number in range(10)])
    table.append([{"id": number} for number in range(10, 20)])
    table.upsert([{"id": 3}, {"id": 15}])
    found = StaticTable.from_metadata(table.iceberg())
    tasks = list(found.scan().plan_files())
    delete_files = {deletes.file_path: deletes for task in tasks for deletes in task.delete_files}
    assert len(delete_files) == 2
    for deletes in delete_files.values():
        assert deletes.content is DataFileContent.POSITION_DELETES
        (of,) = [task.file.file_path for task in tasks if deletes in task.delete_files]
        assert deletes.lower_bounds[2147483546] == deletes.upper_bounds[2147483546] == of.encode()

    for address in delete_files:
        rows = parquet.read_table(address.removeprefix("file://"))
        assert [field.name for field in rows.schema] == ["file_path", "pos"]
        ids = [(field.metadata or {})[b"PARQUET:field_id"] for field in rows.schema]
        assert ids == [b"2147483546", b"2147483545"]
        assert not any(field.nullable for field in rows.schema)
        assert rows.column("pos").to_pylist() in ([3], [5])


@pytest.mark.parametrize(
    "more", [{"content_type": "application/feather"}, {"content_encoding": "gzip"}], ids=["kind", "encoding"]
)
def test_a_file_that_iceberg_s_readers_cannot_open_is_refused_and_nothing_is_written(
    store: Store, more: dict[str, str]
) -> None:
    with pytest.raises(InvalidInputError, match=r"shop\.sales has file data/t/0\.parquet.*compact the table"):
        publish_table(store, state_of(TableVersion(1, SCHEMA), None, **more), 1)
    assert list(store.list()) == []


def test_names_that_are_ambiguous_in_iceberg_are_rejected_and_nothing_is_written(store: Store) -> None:
    version = TableVersion(1, parse_schema("a struct<b int>, `a.b` int"))
    with pytest.raises(InvalidInputError, match="rename the column"):
        publish_table(store, state_of(version, None), 1)
    assert list(store.list()) == []
