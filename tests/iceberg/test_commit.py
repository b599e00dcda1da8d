"""Commits of Iceberg clients become deltas: rows, and rows hidden by numbers and by values, and nothing else."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from tests.iceberg.iceberg_client import Client, Written

import mangrove
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.commit.commit_request import parse_commit_request
from mangrove.iceberg.commit.registration import register_table
from mangrove.iceberg.commit.transaction import TableCommit, commit_tables
from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.locators import TableLocator


@pytest.fixture(params=["tree", "deltacat"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(f"memory://{tmp_path.parent.name}-{tmp_path.name}", layout=request.param)
    lake.create_namespace("shop")
    return lake


def client_of(lake: Lakehouse, name: str = "shop.orders", **options: Any) -> Client:
    lake.create_table(name, "id bigint not null, name string", **options)
    return Client(lake, name)


def numbered(*ids: int, name: str = "n") -> list[dict[str, Any]]:
    return [{"id": one, "name": name} for one in ids]


def test_position_deletes_apply_to_old_and_new_files(shop: Lakehouse) -> None:
    client = client_of(shop)
    first = client.rows(numbered(1, 2, 3))
    client.commit([first])
    second = client.rows(numbered(4, 5))
    client.commit([second, client.numbers({first.address: [1], second.address: [0]})])
    assert client.ids() == client.seen_ids() == [1, 3, 5]
    client.commit([client.numbers({first.address: [0, 1]})], removed=client.deletes_of(first.address))
    assert client.ids() == client.seen_ids() == [3, 5]
    assert shop.maintenance.check().problems == ()


def remove_orphan_files(client: Client) -> int:
    """Delete all files below the published location, as engines do that ignore `gc.enabled`; return how many."""
    folder = client.shown.metadata.location.removeprefix(client.lake.uri)
    paths = [one.path for one in client.lake.effects.store.list(folder)]
    client.lake.effects.store.delete_many(paths)
    return len(paths)


@pytest.mark.parametrize("folder", ["data", "iceberg/staging/data"], ids=["at the data path", "at the location"])
def test_an_engine_that_removes_orphan_files_harms_no_version(shop: Lakehouse, folder: str) -> None:
    client = client_of(shop, keys=["id"])
    first = client.rows(numbered(1, 2, 3), path=f"{folder}/first.parquet")
    client.commit([first, client.numbers({first.address: [0]})])
    deleting = client.keys([{"id": 2}], ["id"], path=f"{folder}/deletes.parquet")
    client.commit([client.rows(numbered(4), path=f"{folder}/second.parquet"), deleting])
    client.commit([client.rows(numbered(5))], removed=[one.address for one in client.alive()])
    newest = shop.version
    assert remove_orphan_files(client) == (0 if folder == "data" else 3)
    for version, ids in ((newest - 2, [2, 3]), (newest - 1, [3, 4]), (newest, [5])):
        assert sorted(shop.at(version).table("shop.orders").to_arrow().column("id").to_numpy().tolist()) == ids
    assert shop.maintenance.check().problems == ()


@pytest.mark.parametrize("inline", ["0", "2000"])
def test_restoring_deleted_rows_is_rejected(shop: Lakehouse, inline: str) -> None:
    client = client_of(shop, keys=["id"], properties={"write.inline-rows-max-bytes": inline})
    shop.table("shop.orders").append(numbered(1, 2, 3))
    shop.table("shop.orders").upsert(numbered(2, name="new"))
    client.load()
    first = next(one for one in client.alive() if one.file.record_count == 3)
    delete_files = client.deletes_of(first.address)
    assert len(delete_files) == 1
    before = shop.version
    with pytest.raises(InvalidInputError, match="cannot be restored"):
        client.commit([client.numbers({first.address: [0]})], removed=delete_files)
    with pytest.raises(InvalidInputError, match="cannot be restored"):
        client.commit(removed=delete_files)
    assert shop.version == before
    client.commit([client.numbers({first.address: [0, 1]})], removed=delete_files)
    assert client.ids() == client.seen_ids() == [2, 3]


@pytest.mark.parametrize("inline", ["0", "2000"])
def test_delete_files_are_removed_with_their_data_file(shop: Lakehouse, inline: str) -> None:
    client = client_of(shop, keys=["id"], properties={"write.inline-rows-max-bytes": inline})
    shop.table("shop.orders").append(numbered(1, 2, 3))
    shop.table("shop.orders").upsert(numbered(2, name="new"))
    client.load()
    first = next(one for one in client.alive() if one.file.record_count == 3)
    client.commit([client.rows(numbered(1, 3))], removed=[first.address, *client.deletes_of(first.address)])
    assert client.ids() == client.seen_ids() == [1, 2, 3]


def test_equality_deletes_apply_only_to_rows_of_earlier_commits(shop: Lakehouse) -> None:
    client = client_of(shop)
    client.commit([client.rows(numbered(1, 2, 3, 3))])
    client.commit([client.keys([{"id": 3}, {"id": 2}, {"id": 3}], ["id"]), client.rows(numbered(3, 4))])
    assert client.ids() == client.seen_ids() == [1, 3, 4]
    client.commit([client.keys([{"name": "n"}], ["name"]), client.rows(numbered(9, name="m"))])
    assert client.ids() == client.seen_ids() == [9]
    assert shop.table("shop.orders").compact().logs == 1
    assert client.ids() == client.seen_ids() == [9]


@pytest.mark.parametrize(
    ("columns", "key", "told"),
    [
        ("id bigint not null, name string", {"name": None}, "which matches no row"),
        ("id bigint, x double", {"x": 1.0}, "inexact type"),
    ],
)
def test_equality_deletes_by_incomparable_values_are_rejected(
    shop: Lakehouse, columns: str, key: dict[str, Any], told: str
) -> None:
    shop.create_table("shop.orders", columns)
    client = Client(shop, "shop.orders")
    client.commit([client.rows([{"id": 1}])])
    before = shop.version
    with pytest.raises(InvalidInputError, match=told):
        client.commit([client.keys([key], list(key))])
    assert shop.version == before


def test_equality_deletes_apply_only_to_their_partition(shop: Lakehouse) -> None:
    client = client_of(shop, partition_by=["name"])
    client.commit([client.rows(numbered(1, 2, name="a"), ["a"]), client.rows(numbered(1, name="b"), ["b"])])
    client.commit([client.keys([{"id": 1}], ["id"], ["a"])])
    assert client.ids() == client.seen_ids() == [1, 2]
    together = client_of(shop, "shop.together", keys=["id"], partition_by=["name"])
    with pytest.raises(InvalidInputError, match="do not determine the partition"):
        together.commit([together.keys([{"id": 1}], ["id"], ["a"])])


def test_a_repeated_commit_succeeds_and_is_not_applied_twice(shop: Lakehouse) -> None:
    client = client_of(shop)
    request = client.request([client.rows(numbered(1, 2))])
    client.send(request)
    known, version = client.shown, shop.version
    client.send(request)
    assert (client.shown, shop.version, client.ids()) == (known, version, [1, 2])
    shop.table("shop.orders").append(numbered(3))
    version = shop.version
    client.send(request)
    assert (shop.version, client.ids()) == (version, [1, 2, 3])


def test_a_commit_over_several_tables_is_atomic(shop: Lakehouse) -> None:
    first, second = client_of(shop, "shop.a"), client_of(shop, "shop.b")
    requested = [
        TableCommit(TableLocator("shop", one.table[-1]), parse_commit_request(one.request([one.rows(numbered(1))])))
        for one in (first, second)
    ]
    second.commit([second.rows(numbered(7))])
    before = shop.version
    with pytest.raises(ConflictError, match="reload the table"):
        commit_tables(shop, requested)
    assert (shop.version, first.ids(), second.ids()) == (before, [], [7])
    again = TableCommit(requested[1].table, parse_commit_request(second.request([second.rows(numbered(8))])))
    commit_tables(shop, [requested[0], again])
    assert (shop.version, first.ids(), second.ids()) == (before + 1, [1], [7, 8])
    for wrong in ([], [requested[0], requested[0]]):
        with pytest.raises(InvalidInputError, match="send each table once"):
            commit_tables(shop, wrong)


def test_concurrent_client_appends_lose_no_rows(shop: Lakehouse) -> None:
    client_of(shop)
    gate = threading.Barrier(4)
    conflicts: list[int] = []

    def write(number: int) -> None:
        client = Client(shop, "shop.orders")
        gate.wait()
        for _ in range(20):
            try:
                client.commit([client.rows(numbered(number))])
            except ConflictError:
                conflicts.append(number)
                client.load()
            else:
                return

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Client(shop, "shop.orders").ids() == [0, 1, 2, 3]
    assert shop.maintenance.check().problems == ()


def test_a_concurrent_commit_after_the_load_is_a_conflict(shop: Lakehouse) -> None:
    client = client_of(shop)
    request = client.request([client.rows(numbered(1))])
    shop.table("shop.orders").append(numbered(2))
    with pytest.raises(ConflictError):
        client.send(request)
    assert client.ids() == [2]


@pytest.mark.parametrize("goes", [False, True])
def test_an_append_of_mangrove_is_rebased_over_a_client_commit(shop: Lakehouse, goes: bool) -> None:
    client = client_of(shop)
    first = client.rows(numbered(1))
    client.commit([first])
    with shop.transaction() as ours:
        ours.table("shop.orders").append(numbered(2))
        client.commit([client.rows(numbered(3))], removed=[first.address] if goes else [])
    assert client.ids() == client.seen_ids() == ([2, 3] if goes else [1, 2, 3])


def test_a_client_commit_conflicts_with_a_concurrent_compaction(shop: Lakehouse) -> None:
    client = client_of(shop)
    client.commit([client.rows(numbered(1)), client.rows(numbered(2))])
    request = client.request([client.rows(numbered(3))])
    shop.table("shop.orders").compact()
    with pytest.raises(ConflictError):
        client.send(request)
    assert client.ids() == client.seen_ids() == [1, 2]


def replacing(client: Client, columns: str, added: list[Written], keys: Sequence[int] = ()) -> dict[str, Any]:
    """Return the request by which a client lets a table begin anew; its files are written by the new columns."""
    request = client.request(added, removed=[one.address for one in client.alive()])
    request["requirements"] = [one for one in request["requirements"] if one["type"] == "assert-table-uuid"]
    request["updates"][0]["snapshot"]["parent-snapshot-id"] = None
    schema = to_iceberg_schema(parse_schema(columns), keys).model_dump(mode="json", by_alias=True)
    request["updates"] = [
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        {"action": "add-schema", "schema": {**schema, "schema-id": 99}},
        {"action": "set-current-schema", "schema-id": -1},
        *(request["updates"] if added else []),
    ]
    return request


def test_a_client_replaces_a_table_with_other_columns_and_rows(shop: Lakehouse) -> None:
    client = client_of(shop, keys=["id"])
    shop.table("shop.orders").upsert(numbered(1, 2, name="old"))
    shop.table("shop.orders").upsert(numbered(2, 3, name="old"))
    client.load()
    before, known = shop.version, client.shown.metadata.table_uuid
    columns = "id string not null, name double, more bigint not null"
    schema = parse_schema(columns)
    written = client.rows([{"id": "x", "name": 1.5, "more": 7}], schema=schema)
    client.send(replacing(client, columns, [written]))
    assert shop.version == before + 1
    assert client.shown.metadata.table_uuid == known
    table = shop.table("shop.orders")
    assert table.to_arrow().to_pylist() == [{"id": "x", "name": 1.5, "more": 7}]
    assert (table.keys, [*client.contents().values()]) == ((), [{0: {"id": "x", "name": 1.5, "more": 7}}])
    assert shop.at(before).table("shop.orders").to_arrow().num_rows == 3
    table.append([{"id": "y", "name": None, "more": 8}])
    client.load()
    client.send(replacing(client, "id bigint not null", [], keys=(1,)))
    assert (shop.table("shop.orders").keys, client.ids(), client.seen_ids()) == (("id",), [], [])
    assert shop.maintenance.check().problems == ()


def test_a_concurrent_write_with_the_replaced_columns_conflicts(shop: Lakehouse) -> None:
    client = client_of(shop)
    client.commit([client.rows(numbered(1))])
    ours = shop.transaction()
    ours.table("shop.orders").append(numbered(2))
    client.send(replacing(client, "id string", [client.rows([{"id": "x"}], schema=parse_schema("id string"))]))
    with pytest.raises(ConflictError):
        ours.commit()
    assert shop.table("shop.orders").to_arrow().to_pylist() == [{"id": "x"}]


def test_replacing_a_table_with_checks_or_without_its_partition_column_is_rejected(shop: Lakehouse) -> None:
    checked = client_of(shop, "shop.checked", checks={"small": "id < 10"})
    divided = client_of(shop, "shop.divided", partition_by=["name"])
    before = shop.version
    with pytest.raises(InvalidInputError, match="drop them before"):
        checked.send(replacing(checked, "id bigint, name string, more int", []))
    with pytest.raises(InvalidInputError, match="drop them before"):
        checked.send(partitioned_by_id(replacing(checked, "id bigint, name string", [])))
    with pytest.raises(InvalidInputError, match="are inconsistent"):
        divided.send(replacing(divided, "id bigint not null", []))
    assert shop.version == before


BY_ID = PartitionSpec(PartitionField(1, 1007, IdentityTransform(), "id"), spec_id=7)


def partitioned_by_id(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request that also partitions the table by its first column."""
    spec = BY_ID.model_dump(mode="json", by_alias=True)
    added = [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]
    return {**request, "updates": [*request["updates"], *added]}


@pytest.mark.parametrize(
    "options", [{}, {"partition_by": ["name"]}, {"partition_by": ["name"], "keys": ["id"]}], ids=str
)
def test_a_table_is_replaced_by_one_with_other_partitions(shop: Lakehouse, options: dict[str, Any]) -> None:
    client = client_of(shop, **options)
    shop.table("shop.orders").append(numbered(1, 2))
    client.load()
    before, table_id = shop.version, shop.table("shop.orders").id
    assumed = client.shown.metadata.model_copy(
        update={"partition_specs": [*client.shown.metadata.partition_specs, BY_ID], "default_spec_id": 7}
    )
    client.shown = replace(client.shown, metadata=assumed)
    rows = client.rows([{"id": 5, "more": 1}], [5], parse_schema("id bigint not null, more int"))
    client.send(partitioned_by_id(replacing(client, "id bigint not null, more int", [rows])))
    table = shop.table("shop.orders")
    assert (table.id, table.partition_by, table.keys) == (table_id, ("id",), ())
    assert client.ids() == client.seen_ids() == [5]
    table.append([{"id": 6, "more": 2}])
    assert client.ids() == client.seen_ids() == [5, 6]
    assert shop.at(before).table("shop.orders").to_arrow().num_rows == 2
    assert shop.maintenance.check().problems == ()


def test_a_table_is_replaced_by_one_without_partitions_or_with_other_keys(shop: Lakehouse) -> None:
    divided = client_of(shop, "shop.divided", partition_by=["name"])
    together = client_of(shop, "shop.together", partition_by=["name"], keys=["id"])
    undivided = replacing(divided, "id bigint not null", [])
    undivided["updates"].append({"action": "set-default-spec", "spec-id": 1})
    divided.send(undivided)
    together.send(replacing(together, "id bigint, name string", []))
    assert shop.table("shop.divided").partition_by == ()
    assert (shop.table("shop.together").partition_by, shop.table("shop.together").keys) == (("name",), ())
    for name in ("shop.divided", "shop.together"):
        shop.table(name).append([{"id": 1}])
        assert Client(shop, name).seen_ids() == [1]
    assert shop.maintenance.check().problems == ()


def test_a_staged_table_cannot_use_the_location_or_name_of_another_table(shop: Lakehouse) -> None:
    other = client_of(shop)
    metadata = other.shown.metadata
    schema = metadata.schema().model_dump(mode="json", by_alias=True)
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": str(metadata.table_uuid)},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata.location},
    ]

    def made(name: str) -> None:
        request = parse_commit_request({"requirements": [{"type": "assert-create"}], "updates": updates})
        commit_tables(shop, [TableCommit(TableLocator("shop", name), request)])

    before = shop.version
    with pytest.raises(InvalidInputError, match="already exists as"):
        made("mine")
    with pytest.raises(AlreadyExistsError):
        made("orders")
    updates[-1]["location"] = "file:///etc"
    with pytest.raises(InvalidInputError, match="stage its creation first"):
        made("mine")
    assert shop.version == before


@pytest.mark.parametrize("options", [{}, {"partition_by": ["name"]}, {"keys": ["id"]}], ids=str)
def test_a_registered_metadata_file_restores_its_dropped_table(shop: Lakehouse, options: dict[str, Any]) -> None:
    client = client_of(shop, **options)
    client.commit([client.rows(numbered(1, 2), ["n"] if "partition_by" in options else [])])
    table = shop.table("shop.orders")
    if options.get("keys"):
        table.upsert(numbered(2, 3, name="new"))
    client.load()
    table_id, address, rows = table.id, client.shown.metadata_address, client.ids()
    shop.drop_table("shop.orders")
    register_table(shop, TableLocator("shop", "again"), address)
    restored = Client(shop, "shop.again")
    assert (shop.table("shop.again").id, restored.ids(), restored.seen_ids()) == (table_id, rows, rows)
    assert restored.shown.metadata.current_snapshot_id == client.shown.metadata.current_snapshot_id
    shop.table("shop.again").append(numbered(9))
    assert restored.ids() == restored.seen_ids() == [*rows, 9]
    assert shop.maintenance.check().problems == ()


def test_a_metadata_file_of_an_expired_version_or_another_namespace_is_not_registered(shop: Lakehouse) -> None:
    client = client_of(shop)
    address = client.shown.metadata_address
    shop.drop_table("shop.orders")
    shop.create_namespace("other")
    with pytest.raises(InvalidInputError, match="register it there"):
        register_table(shop, TableLocator("other", "orders"), address)
    shop.alter(minimum_versions_to_keep=1, maximum_version_age_millis=0)
    assert shop.maintenance.expire(alone=True).versions
    with pytest.raises(NotFoundError):
        register_table(shop, TableLocator("shop", "orders"), address)


def changing(client: Client, *updates: dict[str, Any]) -> dict[str, Any]:
    """Return a request that changes the table but not its rows."""
    return {
        "requirements": [{"type": "assert-table-uuid", "uuid": str(client.shown.metadata.table_uuid)}],
        "updates": list(updates),
    }


@pytest.mark.parametrize("keys", [[], ["id"]], ids=str)
def test_a_client_partitions_a_table_that_has_rows_without_partitions(shop: Lakehouse, keys: list[str]) -> None:
    client = client_of(shop, keys=keys)
    table = shop.table("shop.orders")
    table.append(numbered(1, 2))
    client.load()
    client.send(partitioned_by_id(changing(client)))
    assert table.partition_by == ("id",)
    client.commit([client.rows(numbered(3), [3])])
    table.append(numbered(4, 5))
    assert client.ids() == client.seen_ids() == [1, 2, 3, 4, 5]
    assert [row["id"] for row in table.to_arrow(where="id = 4").to_pylist()] == [4]
    table.delete("id = 1")
    table.compact(full=True)
    assert client.ids() == client.seen_ids() == [2, 3, 4, 5]
    assert {one.spec_id for one in client.alive()} == {client.shown.metadata.default_spec_id}
    assert shop.maintenance.check().problems == ()


def with_identifiers(client: Client, *ids: int) -> dict[str, Any]:
    schema = client.shown.metadata.schema().model_dump(mode="json", by_alias=True)
    added = {"action": "add-schema", "schema": {**schema, "schema-id": 99, "identifier-field-ids": list(ids)}}
    return changing(client, added, {"action": "set-current-schema", "schema-id": -1})


def test_a_client_sets_identifier_fields_unless_deltas_refer_to_the_keys(shop: Lakehouse) -> None:
    client = client_of(shop)
    table = shop.table("shop.orders")
    table.append(numbered(1, 2))
    client.load()
    client.send(with_identifiers(client, 1))
    assert table.keys == ("id",)
    assert client.shown.metadata.schema().identifier_field_ids == [1]
    table.upsert(numbered(2, 3, name="new"))
    assert client.ids() == client.seen_ids() == [1, 2, 3]
    with pytest.raises(InvalidInputError, match="compact the table"):
        client.send(with_identifiers(client))
    table.compact(full=True)
    client.load()
    client.send(with_identifiers(client))
    assert (shop.table("shop.orders").keys, client.ids()) == ((), [1, 2, 3])


def test_a_concurrent_write_by_the_previous_keys_conflicts(shop: Lakehouse) -> None:
    client = client_of(shop, keys=["id"])
    shop.table("shop.orders").append(numbered(1))
    client.load()
    ours = shop.transaction()
    ours.table("shop.orders").upsert(numbered(1, name="new"))
    client.send(with_identifiers(client))
    with pytest.raises(ConflictError):
        ours.commit()
