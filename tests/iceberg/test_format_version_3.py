"""Tables published as Iceberg format version 3, and commits of clients that write it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, FileFormat, ManifestFile
from pyiceberg.table import StaticTable
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.table.snapshots import Snapshot
from tests.iceberg.iceberg_client import Client

import mangrove
from mangrove.errors import ConflictError, FormatError, InvalidInputError
from mangrove.iceberg.deletion_vectors import decode_deletion_vector, encode_deletion_vector
from mangrove.iceberg.publish.metadata_writer import find_next_row_id
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.tables.iceberg_names import PARTS_SUFFIX

V3 = {"format-version": "3", "write.delete-mode": "position"}


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("shop")
    lake.create_table("shop.sales", "id bigint not null, what string", properties=V3)
    return lake


def append(lake: Lakehouse, *ids: int) -> None:
    lake.table("shop.sales").append([{"id": one, "what": "old"} for one in ids])


def first_row_ids(client: Client, snapshot: Snapshot | None = None) -> dict[str, int]:
    """Return the first row ids of the live data files of a snapshot by location."""
    found = snapshot or client.shown.metadata.current_snapshot()
    assert found is not None
    return {one.address: one.file[16] for one in client.alive(found) if one.content.value == 0}


def row_ids(client: Client) -> dict[int, int]:
    """Return the row id of each row by its column `id`."""
    rows = client.contents()
    starts = first_row_ids(client)
    return {row["id"]: starts[address] + place for address, found in rows.items() for place, row in found.items()}


def test_deleted_rows_are_published_as_one_deletion_vector_for_each_data_file(lake: Lakehouse) -> None:
    append(lake, *range(10))
    append(lake, *range(10, 20))
    lake.table("shop.sales").delete("id in (3, 4, 12)")
    client = Client(lake, "shop.sales")
    assert client.shown.metadata.format_version == 3
    vectors = [one for one in client.alive() if one.content.value == 1]
    assert [one.file.file_format for one in vectors] == [FileFormat.PUFFIN] * 2
    assert sorted(one.file.record_count for one in vectors) == [1, 2]
    for one in vectors:
        assert one.vector is not None
        with PyArrowFileIO().new_input(one.address).open() as file:
            puffin = PuffinFile(file.read())
        (blob,) = puffin.footer.blobs
        assert (blob.offset, blob.length) == (one.vector.offset, one.vector.size)
        assert blob.properties["referenced-data-file"] == one.vector.data_file
        assert (blob.snapshot_id, blob.sequence_number) == (-1, -1)
    read = StaticTable.from_metadata(client.shown.metadata_address).scan().to_arrow()
    assert set(read["id"].to_pylist()) == set(client.ids()) == set(range(20)) - {3, 4, 12}
    assert len(read) == 17


def test_deletion_vectors_of_a_client_delete_rows_and_replace_published_ones(lake: Lakehouse) -> None:
    append(lake, *range(5))
    append(lake, *range(5, 10))
    client = Client(lake, "shop.sales")
    first, second = (one.address for one in client.alive())
    client.commit(client.vectors({first: [0, 4], second: [1]}))
    assert client.ids() == client.seen_ids() == [1, 2, 3, 5, 7, 8, 9]
    (published,) = client.deletes_of(first)
    client.commit(client.vectors({first: [0, 2, 4]}), removed=[published])
    assert client.ids() == client.seen_ids() == [1, 3, 5, 7, 8, 9]
    (published,) = client.deletes_of(first)
    with pytest.raises(InvalidInputError, match="cannot be restored"):
        client.commit(client.vectors({first: [0]}), removed=[published])
    assert lake.maintenance.check().problems == ()


@pytest.mark.parametrize(
    ("deleted", "record_count", "message"),
    [([7], 1, "out of range"), ([1], 2, "2 in its manifest"), ([2**40], 1, "out of range")],
)
def test_invalid_deletion_vectors_of_a_client_are_rejected(
    lake: Lakehouse, deleted: list[int], record_count: int, message: str
) -> None:
    append(lake, 1, 2)
    client = Client(lake, "shop.sales")
    (file,) = client.alive()
    (written,) = client.vectors({file.address: deleted})
    written.file[4] = record_count
    before = lake.version
    with pytest.raises(InvalidInputError, match=message):
        client.commit([written])
    assert lake.version == before


@pytest.mark.parametrize("place", [0, 5, 20, -1])
def test_a_damaged_deletion_vector_is_rejected(place: int) -> None:
    blob = bytearray(encode_deletion_vector(pa.array([1, 70_000, 2**33], pa.int64())))
    assert decode_deletion_vector(bytes(blob), 3, "here").to_pylist() == [1, 70_000, 2**33]
    blob[place] ^= 1
    with pytest.raises(InvalidInputError, match="here"):
        decode_deletion_vector(bytes(blob), 3, "here")


def test_rows_keep_their_row_ids_in_later_snapshots_and_after_a_rollback(lake: Lakehouse) -> None:
    append(lake, 1, 2, 3)
    client = Client(lake, "shop.sales")
    assert row_ids(client) == {1: 0, 2: 1, 3: 2}
    append(lake, 4, 5)
    lake.table("shop.sales").delete("id = 2")
    assert row_ids(client) == {1: 0, 3: 2, 4: 3, 5: 4}
    before = lake.version
    lake.table("shop.sales").overwrite([{"id": 9, "what": "all"}])
    assert row_ids(client) == {9: 5}
    lake.rollback(before)
    assert row_ids(client) == {1: 0, 3: 2, 4: 3, 5: 4}
    append(lake, 10)
    assert row_ids(client) == {1: 0, 3: 2, 4: 3, 5: 4, 10: 6}
    numbers = [(one.first_row_id, one.added_rows) for one in client.shown.metadata.snapshots]
    assert numbers == [(0, 3), (3, 2), (5, 0), (5, 1), (6, 1)]
    assert find_next_row_id(client.shown.metadata) == 7


def test_the_lists_of_manifests_name_the_row_ids_of_data_files(lake: Lakehouse) -> None:
    append(lake, 1, 2)
    append(lake, 3)
    lake.table("shop.sales").delete("id = 1")
    client = Client(lake, "shop.sales")
    (current,) = client.shown.metadata.snapshots[-1:]
    with AvroFile[ManifestFile](
        PyArrowFileIO().new_input(current.manifest_list), MANIFEST_LIST_FILE_SCHEMAS[3], {-1: ManifestFile}
    ) as reader:
        assert [(one.content, one[15]) for one in reader] == [(0, 0), (1, None)]
        assert (reader.header.meta["format-version"], reader.header.meta["first-row-id"]) == ("3", "3")


def test_a_new_list_of_snapshots_assigns_no_row_id_that_files_of_clients_may_contain(lake: Lakehouse) -> None:
    append(lake, 1, 2)
    client = Client(lake, "shop.sales")
    client.commit([client.rows([{"id": 3, "what": "client"}])])
    assert find_next_row_id(client.shown.metadata) == 3
    lake.table("shop.sales").overwrite([{"id": 4, "what": "x"}])
    folder = f"data/{lake.table('shop.sales').state().table_id}/metadata/"
    lake.effects.store.delete_many([one.path for one in lake.effects.store.list(folder)])
    assert min(row_ids(client).values()) >= 2


def test_client_files_may_contain_the_row_ids_of_moved_rows(lake: Lakehouse) -> None:
    append(lake, 1, 2)
    client = Client(lake, "shop.sales")
    (before,) = client.alive()
    fields = [("id", 1, pa.int64()), ("_row_id", 2**31 - 108, pa.int64())]
    fields.append(("_last_updated_sequence_number", 2**31 - 109, pa.int64()))
    schema = pa.schema([pa.field(name, kind, metadata={"PARQUET:field_id": str(one)}) for name, one, kind in fields])
    sink = pa.BufferOutputStream()
    rows = pa.table([[1, 2], [0, 1], [1, 1]], schema=schema)
    pq.write_table(rows, sink)
    client.commit([client.rows([{}] * 2, data=sink.getvalue().to_pybytes())], removed=[before.address])
    assert client.ids() == client.seen_ids() == [1, 2]


def test_a_table_is_upgraded_by_a_property_and_by_a_client(lake: Lakehouse) -> None:
    for name in ("ours", "theirs"):
        table = lake.create_table(f"shop.{name}", "id bigint", properties={"write.delete-mode": "position"})
        table.append([{"id": one} for one in range(4)])
        table.delete("id = 1")
    ours, theirs = Client(lake, "shop.ours"), Client(lake, "shop.theirs")
    assert ours.shown.metadata.format_version == theirs.shown.metadata.format_version == 2
    lake.table("shop.ours").alter(put={"format-version": "3"})
    upgrade = {"action": "upgrade-format-version", "format-version": 3}
    theirs.send({"requirements": [], "updates": [upgrade]})
    for client in (ours, theirs):
        assert client.seen_ids() == client.ids() == [0, 2, 3]
        metadata = client.shown.metadata
        assert (metadata.format_version, [one.first_row_id for one in metadata.snapshots]) == (3, [None, None, 0])
        formats = [
            {entry.file.file_format for entry in client.alive(one) if entry.content.value == 1}
            for one in metadata.snapshots
        ]
        assert formats == [set(), {FileFormat.PARQUET}, {FileFormat.PUFFIN}]
        assert lake.table(client.table).properties["format-version"] == "3"
    with pytest.raises(InvalidInputError, match="Cannot downgrade"):
        theirs.send({"requirements": [], "updates": [{**upgrade, "format-version": 2}]})
    with pytest.raises(InvalidInputError, match="unsupported Iceberg format version 4"):
        theirs.send({"requirements": [], "updates": [{**upgrade, "format-version": 4}]})


def test_a_lower_format_version_begins_a_new_list_of_snapshots(lake: Lakehouse) -> None:
    append(lake, 1, 2)
    client = Client(lake, "shop.sales")
    lake.table("shop.sales").alter(put={"format-version": "2"})
    assert client.seen_ids() == [1, 2]
    assert (client.shown.metadata.format_version, len(client.shown.metadata.snapshots)) == (2, 1)
    with pytest.raises(InvalidInputError, match="invalid format-version '1'"):
        lake.table("shop.sales").alter(put={"format-version": "1"})


def test_the_metadata_file_is_that_of_format_version_3(lake: Lakehouse) -> None:
    client = Client(lake, "shop.sales")
    metadata = json.loads(client.shown.metadata.model_dump_json())
    assert (metadata["format-version"], metadata["next-row-id"]) == (3, 0)
    assert "format-version" not in metadata["properties"]
    append(lake, 1, 2)
    client.load()
    stored = json.loads(Path(client.shown.metadata_address.removeprefix("file://")).read_text())
    assert stored == json.loads(client.shown.metadata.model_dump_json())
    assert (stored["next-row-id"], stored["snapshots"][0]["first-row-id"], stored["snapshots"][0]["added-rows"]) == (
        2, 0, 2,
    )  # fmt: skip
    alone = StaticTable.from_metadata(lake.table("shop.sales").iceberg())
    assert alone.scan().count() == 2


def test_a_commit_based_on_row_ids_from_before_a_rollback_is_a_conflict(lake: Lakehouse) -> None:
    append(lake, 1, 2)
    before = lake.version
    client = Client(lake, "shop.sales")
    request = client.request([client.rows([{"id": 3, "what": "client"}])])
    append(lake, 4)
    Client(lake, "shop.sales")
    lake.rollback(before)
    with pytest.raises(ConflictError, match="first row id 2, but the next one is 3"):
        client.send(request)
    client.load()
    client.commit([client.rows([{"id": 3, "what": "client"}])])
    assert row_ids(client) == {1: 0, 2: 1, 3: 3}


def test_a_vacuum_keeps_the_deletion_vectors_of_listed_snapshots(lake: Lakehouse) -> None:
    append(lake, *range(5))
    lake.table("shop.sales").delete("id = 1")
    client = Client(lake, "shop.sales")
    before = row_ids(client)
    folder = f"data/{lake.table('shop.sales').state().table_id}/metadata/"
    written = {one.path for one in lake.effects.store.list(folder)}
    lake.maintenance.vacuum(alone=True)
    assert {one.path for one in lake.effects.store.list(folder)} == written
    lake.table("shop.sales").delete("id = 2")
    assert client.seen_ids() == [0, 3, 4]
    assert row_ids(client).items() <= before.items()


def test_a_damaged_record_of_row_ids_is_reported(lake: Lakehouse) -> None:
    append(lake, 1)
    client = Client(lake, "shop.sales")
    folder = f"data/{lake.table('shop.sales').state().table_id}/metadata/"
    (path,) = [one.path for one in lake.effects.store.list(folder) if one.path.endswith(PARTS_SUFFIX)]
    lake.effects.store.put(path, lake.effects.store.read(path) + b"\nmany data/x")
    append(lake, 2)
    with pytest.raises(FormatError, match="delete it, which assigns new row ids"):
        client.load()
    lake.effects.store.delete_many([path])
    assert client.seen_ids() == [1, 2]
