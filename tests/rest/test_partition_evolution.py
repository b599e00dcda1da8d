"""Partition evolution: clients change the partitions of a table with rows, and every reader finds the same rows."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType
from tests.iceberg.iceberg_client import Client
from tests.rest.conftest import TOKEN, counted, served

import mangrove
from mangrove.errors import ConflictError, InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)
FIELDS: list[Any] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("name", pa.string()),
    pa.field("day", pa.date32(), nullable=False),
]
ARROW = pa.schema(FIELDS)
NAME = "sales.parts"


def rows_of(*ids: int, day: int = 1, name: str = "n") -> pa.Table:
    rows = [{"id": one, "name": f"{name}{one % 2}", "day": date(2026, 1, day)} for one in ids]
    return pa.Table.from_pylist(rows, schema=ARROW)


def read(table: Any) -> list[tuple[int, str]]:
    return sorted((row["id"], row["name"]) for row in table.to_pylist())


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("sales")
    return lake


@pytest.fixture
def writing(lake: Lakehouse, catalog_of: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    with served(counted(lake), WRITABLE) as address:
        yield catalog_of(address, token=TOKEN)


@pytest.fixture
def table(lake: Lakehouse, writing: RestCatalog) -> IcebergTable:
    """Return a table that is partitioned by day, with rows, deleted rows and two partitions."""
    lake.create_table(NAME, "id bigint not null, name string, day date not null", partition_by=["day"])
    table: IcebergTable = writing.load_table(NAME)
    table.append(rows_of(1, 2, 3))
    table.append(rows_of(4, 5, day=2))
    lake.table(NAME).delete("id = 2")
    table.refresh()
    return table


def check_same(lake: Lakehouse, table: IcebergTable, where: str = "id > 0") -> list[tuple[int, str]]:
    """Return the rows that all engines see, having checked that they are the same and the lakehouse is sound."""
    ours = read(lake.table(NAME).to_arrow(where=where))
    assert read(table.refresh().scan(row_filter=where).to_arrow()) == ours
    assert read(lake.sql(f"select * from {NAME} where {where}").to_arrow()) == ours
    assert lake.maintenance.check().problems == ()
    return ours


def spec_ids(table: IcebergTable) -> list[int]:
    """Return the spec of each data file, in the order of the specs."""
    return sorted(one.file.spec_id for one in table.scan().plan_files())


def test_a_client_adds_a_partition_field_and_old_files_keep_their_spec(lake: Lakehouse, table: IcebergTable) -> None:
    before = lake.version
    with table.update_spec() as change:
        change.add_identity("name")
    assert lake.version == before + 1
    table.refresh().append(rows_of(6, 7, day=3))
    ours = lake.table(NAME)
    ours.append(rows_of(8, 9))
    assert ours.partition_by == ("day", "name")
    assert [row for row, _ in check_same(lake, table)] == [1, 3, 4, 5, 6, 7, 8, 9]
    assert spec_ids(table) == [0, 0, 2, 2, 2, 2]
    assert check_same(lake, table, "name = 'n0'") == [(4, "n0"), (6, "n0"), (8, "n0")]
    assert [row for row, _ in check_same(lake, table, "day = '2026-01-02'")] == [4, 5]
    # Each file is pruned by the values of its own scheme.
    assert len(ours.scan(where="day = '2026-01-03' and name = 'n0'").files()) == 1
    assert read(lake.at(before).table(NAME).to_arrow()) == [(1, "n1"), (3, "n1"), (4, "n0"), (5, "n1")]


def test_earlier_snapshots_stay_readable_after_a_change_of_partitions(lake: Lakehouse, table: IcebergTable) -> None:
    earlier = {one.snapshot_id: read(table.scan(snapshot_id=one.snapshot_id).to_arrow()) for one in table.snapshots()}
    with table.update_spec() as change:
        change.add_identity("name")
    table.refresh().append(rows_of(6))
    assert earlier.keys() <= {one.snapshot_id for one in table.snapshots()}
    for snapshot_id, rows in earlier.items():
        assert read(table.scan(snapshot_id=snapshot_id).to_arrow()) == rows


def test_a_client_renames_a_partition_field_and_files_keep_their_partitions(
    lake: Lakehouse, table: IcebergTable
) -> None:
    with table.update_spec() as change:
        change.rename_field("day", "on_day")
    assert [one.name for one in table.spec().fields] == ["on_day"]
    table.refresh().append(rows_of(6))
    lake.table(NAME).append(rows_of(7, day=2))
    assert check_same(lake, table) == [(1, "n1"), (3, "n1"), (4, "n0"), (5, "n1"), (6, "n0"), (7, "n1")]
    assert [read(table.scan(snapshot_id=one.snapshot_id).to_arrow()) for one in table.snapshots()[:1]] == [
        [(1, "n1"), (2, "n0"), (3, "n1")]
    ]
    assert len([*table.scan(row_filter="day = '2026-01-02'").plan_files()]) == 2
    assert len(lake.table(NAME).scan(where="day = date '2026-01-02'").files()) == 2


def test_a_field_that_was_removed_and_added_again_is_renamed(lake: Lakehouse, table: IcebergTable) -> None:
    for field in ("name", "day"):
        with table.update_spec() as change:
            change.remove_field(table.spec().fields[0].name)
            change.add_identity(field)
    with table.update_spec() as change:
        change.rename_field("day", "on_day")
    table.refresh().append(rows_of(6))
    assert ([one.name for one in table.spec().fields], table.spec().spec_id) == (["on_day"], 0)
    assert check_same(lake, table, "day < '2026-01-02'") == [(1, "n1"), (3, "n1"), (6, "n0")]


def test_a_partition_field_and_its_column_are_removed_in_one_commit(lake: Lakehouse, table: IcebergTable) -> None:
    before = table.refresh().snapshots()[0].snapshot_id
    version = lake.version
    with table.transaction() as transaction:
        with transaction.update_spec() as spec:
            spec.remove_field("day")
        with transaction.update_schema() as columns:
            columns.delete_column("day")
    assert lake.version == version + 1
    table.refresh().append(rows_of(6).drop_columns("day"))
    assert check_same(lake, table) == [(1, "n1"), (3, "n1"), (4, "n0"), (5, "n1"), (6, "n0")]
    assert table.spec().fields == ()
    assert table.snapshot_by_id(before) is None
    for one in table.snapshots():
        assert len(read(table.scan(snapshot_id=one.snapshot_id).to_arrow())) >= 4
    assert read(lake.at(version).table(NAME).to_arrow()) == [(1, "n1"), (3, "n1"), (4, "n0"), (5, "n1")]


def test_a_partition_field_of_a_new_column_is_added_in_one_commit(lake: Lakehouse, table: IcebergTable) -> None:
    with table.transaction() as transaction:
        with transaction.update_schema() as columns:
            columns.add_column("shop", StringType())
        with transaction.update_spec() as spec:
            spec.add_identity("shop")
    assert [one.name for one in table.spec().fields] == ["day", "shop"]
    assert check_same(lake, table) == [(1, "n1"), (3, "n1"), (4, "n0"), (5, "n1")]


def test_rows_of_all_schemes_change_and_a_full_compaction_moves_them_to_the_newest(
    lake: Lakehouse, table: IcebergTable
) -> None:
    with table.update_spec() as change:
        change.remove_field("day")
        change.add_identity("name")
    table.refresh().append(rows_of(6, 7))
    ours = lake.table(NAME)
    ours.update({"name": "changed"}, where="id in (3, 6)")
    table.refresh().delete("id = 5")
    table.refresh().overwrite(rows_of(4), overwrite_filter="id = 4")
    ours.overwrite(rows_of(10, name="z"), where="name = 'n0' or name = 'z0'")
    expected = [(1, "n1"), (3, "changed"), (6, "changed"), (7, "n1"), (10, "z0")]
    assert check_same(lake, table) == expected
    lake.maintenance.compact(NAME, full=True)
    assert check_same(lake, table) == expected
    assert set(spec_ids(table.refresh())) == {2}
    assert len(ours.scan(where="name = 'z0'").files()) == 1


def test_a_table_loses_its_partitions_and_gets_them_back_with_the_same_spec(
    lake: Lakehouse, table: IcebergTable
) -> None:
    with table.update_spec() as change:
        change.remove_field("day")
    table.refresh().append(rows_of(6, 7, day=9))
    assert lake.table(NAME).partition_by == ()
    with table.refresh().update_spec() as change:
        change.add_identity("day")
    assert table.refresh().spec().spec_id == 0
    table.append(rows_of(8, day=5))
    assert [row for row, _ in check_same(lake, table)] == [1, 3, 4, 5, 6, 7, 8]
    assert spec_ids(table) == [0, 0, 0, 1]
    lake.table(NAME).append(rows_of(11, day=5))
    assert [row for row, _ in check_same(lake, table, "day = '2026-01-05'")] == [8, 11]


@pytest.mark.parametrize("keys", [["id", "day"], ["id"]])
def test_keys_find_rows_of_all_schemes(lake: Lakehouse, writing: RestCatalog, keys: list[str]) -> None:
    ours = lake.create_table(
        NAME, "id bigint not null, name string, day date not null", keys=keys, partition_by=["day"]
    )
    ours.append(rows_of(1, 2, 3))
    ours.upsert(rows_of(2, name="first"))
    ours.append(rows_of(4, day=2))
    ours.delete("id = 3")
    table = writing.load_table(NAME)
    with table.update_spec() as change:
        change.add_identity("name")
    assert check_same(lake, table) == [(1, "n1"), (2, "first0"), (4, "n0")]
    ours = lake.table(NAME)
    ours.upsert(rows_of(1, 2, name="second"))
    ours.upsert(rows_of(4, day=2, name="third"))
    table.refresh().append(rows_of(5, day=2))
    ours.delete("id = 2")
    assert check_same(lake, table) == [(1, "second1"), (4, "third0"), (5, "n1")]


def test_a_write_that_began_before_a_change_of_partitions_is_not_lost(lake: Lakehouse, table: IcebergTable) -> None:
    other = mangrove.open(lake.uri)
    transaction = other.transaction()
    try:
        with transaction:
            transaction.table(NAME).append(rows_of(20))
            with table.update_spec() as change:
                change.add_identity("name")
    except ConflictError:
        other.table(NAME).append(rows_of(20))
    assert [row for row, _ in check_same(lake, table)] == [1, 3, 4, 5, 20]


def test_a_staged_change_of_a_spec_with_rows_is_refused(table: IcebergTable) -> None:
    change = table.transaction()
    with change.update_spec() as spec:
        spec.add_identity("name")
    change.append(rows_of(6))
    with pytest.raises(BadRequestError):
        change.commit_transaction()


def test_a_new_table_with_two_specs_in_its_history_converts_and_exports(
    lake: Lakehouse, table: IcebergTable, tmp_path: Path
) -> None:
    with table.update_spec() as change:
        change.add_identity("name")
    table.refresh().append(rows_of(6))
    expected = check_same(lake, table)
    layout = "deltacat" if lake.layout == "tree" else "tree"
    lake.maintenance.convert(tmp_path / "converted", layout=layout)
    converted = mangrove.open(tmp_path / "converted")
    assert read(converted.table(NAME).to_arrow()) == expected
    assert converted.maintenance.check().problems == ()
    for where in ("name = 'n0'", "name = 'n1'", "day = '2026-01-02'"):
        files = [len(one.table(NAME).scan(where=where).files()) for one in (lake, converted)]
        assert files[0] == files[1]


def test_partitions_of_a_new_table_change_before_its_first_rows(lake: Lakehouse, writing: RestCatalog) -> None:
    lake.create_table(NAME, "id bigint not null, name string, day date not null", partition_by=["day"])
    table = writing.load_table(NAME)
    with table.update_spec() as change:
        change.add_identity("name")
    table.refresh().append(rows_of(1, 2))
    assert check_same(lake, table) == [(1, "n1"), (2, "n0")]


def test_partitions_change_after_equality_deletes_in_one_partition_are_compacted(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", "id bigint not null, part string not null", partition_by=["part"])
    client = Client(lake, "sales.orders")
    files = [client.rows([{"id": 1, "part": part}, {"id": 2, "part": part}], [part]) for part in ("p", "q")]
    client.commit(files)
    client.commit([client.keys([{"id": 1}], ["id"], ["q"])])
    assert client.ids() == client.seen_ids() == [1, 2, 2]
    no_fields = {"spec-id": 0, "fields": []}
    change = {"updates": [{"action": "add-spec", "spec": no_fields}, {"action": "set-default-spec", "spec-id": -1}]}
    with pytest.raises(InvalidInputError, match="compact it"):
        client.send(change)
    table.compact(full=True)
    client.load()
    client.send(change)
    assert lake.table("sales.orders").partition_by == ()
    assert client.ids() == client.seen_ids() == [1, 2, 2]


def test_partitions_and_a_column_with_an_initial_default_change_one_after_the_other(
    lake: Lakehouse, table: IcebergTable
) -> None:
    lake.table(NAME).alter({"format-version": "3"})
    before = lake.version
    client = Client(lake, NAME)
    schema = client.shown.metadata.schema().model_dump(mode="json")
    added = {"id": 4, "name": "more", "type": "int", "required": False, "initial-default": 5}
    columns = [
        {"action": "add-schema", "schema": {**schema, "fields": [*schema["fields"], added]}},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    spec = [{"action": "add-spec", "spec": {"spec-id": 9, "fields": []}}, {"action": "set-default-spec", "spec-id": -1}]
    with pytest.raises(InvalidInputError, match="commit one first"):
        client.send({"requirements": [], "updates": [*columns, *spec]})
    assert lake.version == before
    client.send({"requirements": [], "updates": columns})
    assert set(lake.table(NAME).to_arrow()["more"].to_pylist()) == {5}


def test_a_rollback_to_a_snapshot_before_the_change_restores_its_rows(lake: Lakehouse, table: IcebergTable) -> None:
    wanted, rows = table.refresh().metadata.current_snapshot_id, read(lake.table(NAME).to_arrow())
    assert wanted is not None
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "name")
    table.append(rows_of(8, 9))
    table.manage_snapshots().rollback_to_snapshot(wanted).commit()
    assert table.metadata.current_snapshot_id == wanted
    assert read(table.scan().to_arrow()) == read(lake.table(NAME).to_arrow()) == rows
    table.append(rows_of(10))
    assert read(table.scan().to_arrow()) == read(lake.table(NAME).to_arrow()) == [*rows, (10, "n0")]
    assert lake.maintenance.check().problems == ()
