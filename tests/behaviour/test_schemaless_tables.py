"""Tables without a schema: files added as they are, listed with type and size, read as rows if they have columns."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import mangrove
from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.settings import LakehouseSettings

PNG = b"\x89PNG\r\n\x1a\n not really"
_NUMBERS = iter(range(10**6))


@pytest.fixture
def shop(layout: str) -> Lakehouse:
    lake = mangrove.create(f"memory://schemaless-{layout}-{next(_NUMBERS)}/", layout=layout)
    lake.create_namespace("shop")
    lake.create_table("shop.raw", schemaless=True)
    return lake


def list_types(lake: Lakehouse, name: str = "shop.raw") -> list[tuple[str, int]]:
    return [(file.content_type, file.size_bytes) for file in lake.table(name).files()]


def test_files_are_stored_byte_for_byte_and_listed_with_type_and_size(shop: Lakehouse, tmp_path: Path) -> None:
    photo = tmp_path / "my photo.png"
    photo.write_bytes(PNG)
    table = shop.table("shop.raw")
    assert table.schema is None
    assert table.files() == []
    stored = table.add_files([photo])
    table.add_files({"notes": b"abc"}, content_type="text/plain")
    assert list_types(shop) == [("image/png", len(PNG)), ("text/plain", 3)]
    assert stored[0].location.endswith("-my-photo.png")
    assert shop.effects.store.read(stored[0].location) == PNG
    assert [file.location for file in shop.at(shop.version - 1).table("shop.raw").files()] == [stored[0].location]


def test_rows_of_files_with_columns_are_read_with_a_unified_schema(shop: Lakehouse, tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "name": ["a"]})
    pa.parquet.write_table(rows, tmp_path / "a.parquet")
    pa.feather.write_feather(pa.table({"id": [5]}), str(tmp_path / "e.arrow"))
    (tmp_path / "b.csv").write_text("id,amount\n2,1.5\n")
    (tmp_path / "c.jsonl").write_text('{"id": 3, "name": "c"}\n')
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"id,name\n4,d\n"))
    table = shop.table("shop.raw")
    assert table.to_arrow().num_rows == 0
    table.add_files([tmp_path / name for name in ("a.parquet", "b.csv", "c.jsonl", "d.csv.gz", "e.arrow")])
    assert table.to_arrow(["id", "name", "amount"]).to_pylist() == [
        {"id": 1, "name": "a", "amount": None},
        {"id": 2, "name": None, "amount": 1.5},
        {"id": 3, "name": "c", "amount": None},
        {"id": 4, "name": "d", "amount": None},
        {"id": 5, "name": None, "amount": None},
    ]
    assert len(table.to_pandas()) == 5
    assert table.files()[0].row_count == 1
    with pytest.raises(NotFoundError, match="'missing'"):
        table.to_arrow(["missing"])
    with pytest.raises(InvalidInputError, match="no schema for a condition"):
        table.to_arrow(where="id = 1")
    table.add_files({"d.png": PNG})
    with pytest.raises(InvalidInputError, match="image/png, which has no columns"):
        table.to_arrow()


def test_a_schemaless_table_is_scanned_counted_and_profiled_as_its_files_are_read(shop: Lakehouse) -> None:
    table = shop.table("shop.raw")
    assert (table.count(), table.scan().files(), list(table.profile())) == (0, [], [])
    table.add_files({"a.csv": b"id,who\n1,ana\n2,ben\n", "b.jsonl": b'{"id": 3}\n'})
    scan = table.scan(columns=["id"])
    assert (table.count(), scan.count(), len(scan.files())) == (3, 3, 2)
    assert scan.to_arrow() == table.to_arrow(["id"])
    assert [batch.num_rows for batch in scan.to_batches()] == [2, 1]
    assert table.head(2)["who"].to_pylist() == ["ana", "ben"]
    assert table.to_polars().shape == (3, 2)
    assert [(one.name, one.nulls) for one in table.profile()] == [("id", 0), ("who", 1)]
    assert "all 2 files are read" in scan.explain()
    table.add_files({"c.csv": b"id,gone\n4,\n"})
    assert [(one.type, one.nulls) for one in table.profile(["gone"])] == [("string", 4)]
    for read in (table.count, table.scan, table.to_polars):
        with pytest.raises(InvalidInputError, match="no schema for a condition"):
            read(where="id = 1")
    with pytest.raises(InvalidInputError, match="has no plan"):
        _ = scan.plan


def test_the_next_version_of_a_table_has_no_schema_or_gets_one(shop: Lakehouse) -> None:
    rows = shop.create_table(
        "shop.orders", "id bigint, day date", keys=["id"], partition_by=["day"], checks={"a": "id > 0"}
    )
    files = rows.create_version(schemaless=True, stream_id="main", state="active", description="as delivered")
    assert (files.schema, files.keys, files.partition_by, files.checks) == (None, (), (), {})
    files.add_files({"a.csv": b"id\n1\n"})
    assert shop.table("shop|orders|2|main|deltacat").to_arrow()["id"].to_pylist() == [1]
    again = rows.create_version()
    assert (again.schema, again.description) == (None, "as delivered")
    back = rows.create_version("id bigint", keys=["id"])
    back.append(files.to_arrow())
    assert (back.count(), [one.schema is None for one in rows.versions()]) == (1, [False, True, True, False])
    before = shop.version
    with pytest.raises(InvalidInputError, match="is schemaless: leave out keys"):
        rows.create_version(schemaless=True, keys=["id"])
    with pytest.raises(InvalidInputError, match="is schemaless: leave out the schema"):
        rows.create_version("id int", schemaless=True)
    assert shop.version == before
    assert not shop.maintenance.check().problems


def test_added_files_have_an_author_properties_and_a_chosen_position(shop: Lakehouse) -> None:
    table = shop.table("shop.raw")
    table.add_files({"a.csv": b"id\n1\n"}, author="loader", properties={"source": "shop"}, position=40)
    ((locator, delta),) = table.deltas()
    assert delta.author is not None
    assert (locator.position, delta.author.name, delta.properties) == (40, "loader", {"source": "shop"})
    with pytest.raises(InvalidInputError, match="stream position"):
        table.add_files({"a.csv": b"id\n1\n"}, position=0)


def test_rows_and_keys_are_refused_and_change_nothing(shop: Lakehouse) -> None:
    table = shop.table("shop.raw")
    table.add_files({"a.csv": b"id\n1\n"})
    before = shop.version
    for change in (
        lambda: table.append([{"id": 1}]),
        lambda: table.upsert([{"id": 1}]),
        lambda: table.delete("id = 1"),
        lambda: table.delete_keys([{"id": 1}]),
        lambda: table.overwrite([]),
        lambda: table.compact(),
        lambda: table.add_files([]),
        lambda: table.add_files("a.csv"),
        lambda: table.add_files({"a.parquet": b"no"}, content_type="application/parquet"),
        lambda: table.remove_files([]),
        lambda: table.remove_files("a.csv"),
        lambda: table.remove_files(["data/missing.csv"]),
        lambda: table.add_files(["/nowhere/at/all.csv"]),
        lambda: shop.create_table("shop.other"),
        lambda: shop.create_table("shop.other", "id int", schemaless=True),
        lambda: shop.create_table("shop.other", schemaless=True, keys=["id"]),
    ):
        with pytest.raises((InvalidInputError, NotFoundError)):
            change()
    with pytest.raises(InvalidInputError, match="has a schema"):
        shop.create_table("shop.rows", "id int").add_files({"a.csv": b"id\n1\n"})
    with pytest.raises(InvalidInputError, match="has a schema, so files cannot be removed: delete rows"):
        shop.table("shop.rows").remove_files(["a.csv"])
    shop.drop_table("shop.rows")
    assert list_types(shop) == [("text/csv", 5)]
    assert shop.version == before + 2


def test_concurrent_additions_do_not_conflict(shop: Lakehouse) -> None:
    with shop.transaction() as transaction:
        transaction.table("shop.raw").add_files({"a.csv": b"id\n1\n"})
        shop.table("shop.raw").add_files({"b.csv": b"id\n2\n"})
    assert sorted(shop.table("shop.raw").to_arrow().column("id").to_numpy().tolist()) == [1, 2]


def test_maintenance_and_conversion_keep_the_files(shop: Lakehouse, layout: str) -> None:
    table = shop.table("shop.raw")
    table.add_files({"a.csv": b"id\n1\n", "b.png": PNG})
    pa.parquet.write_table(pa.table({"id": [2]}), sink := pa.BufferOutputStream())
    table.add_files({"c.parquet": sink.getvalue().to_pybytes()})
    assert shop.maintenance.compact() == {}
    shop.maintenance.vacuum(alone=True)
    assert not shop.maintenance.check().problems
    kept = list_types(shop)
    there = f"memory://schemaless-converted-{layout}-{next(_NUMBERS)}/"
    shop.maintenance.convert(there)
    converted = mangrove.open(there)
    assert list_types(converted) == kept
    assert not converted.maintenance.check().problems
    back = f"memory://schemaless-back-{layout}-{next(_NUMBERS)}/"
    converted.maintenance.convert(back, layout)
    assert list_types(mangrove.open(back)) == kept
    shop.drop_table("shop.raw")
    shop.alter(maximum_version_age_millis=0, minimum_versions_to_keep=1)
    shop.maintenance.expire(alone=True)
    shop.maintenance.vacuum(alone=True)
    assert not [one.path for one in shop.effects.store.list() if one.path.startswith("data/")]


def test_files_with_incompatible_columns_are_reported(shop: Lakehouse) -> None:
    table = shop.table("shop.raw")
    table.add_files({"a.jsonl": b'{"x": {"y": 1}}\n', "b.csv": b"x\n1\n"})
    with pytest.raises(InvalidInputError, match="do not fit together"):
        table.to_arrow()


def test_every_file_is_accepted_and_listed_with_an_honest_type(shop: Lakehouse) -> None:
    table = shop.table("shop.raw")
    table.add_files({"a.parquet": b"no", "b.parquet.gz": gzip.compress(b"no"), "c.unknown": b"", "d.csv": b"\xff"})
    assert list_types(shop) == [
        ("application/octet-stream", 2),
        ("application/octet-stream", 22),
        ("application/octet-stream", 0),
        ("text/csv", 1),
    ]
    assert not shop.maintenance.check().problems


def test_single_files_are_removed_and_earlier_versions_still_have_them(shop: Lakehouse) -> None:
    table = shop.table("shop.raw")
    first, second = table.add_files({"a.csv": b"id\n1\n", "b.csv": b"id\n2\n"})
    table.add_files({"c.csv": b"id\n3\n"})
    before = shop.version
    assert [file.location for file in table.remove_files([second])] == [second.location]
    assert table.to_arrow()["id"].to_pylist() == [1, 3]
    assert shop.at(before).table("shop.raw").to_arrow()["id"].to_pylist() == [1, 2, 3]
    with pytest.raises(NotFoundError, match=r"shop.raw has no file 'data/.*b.csv'; list its files"):
        table.remove_files([first.location, second.location])
    shop.table("shop.raw").remove_files(file.location for file in table.files())
    assert table.files() == []
    table.add_files({"d.csv": b"id\n4\n"})
    assert table.to_arrow()["id"].to_pylist() == [4]
    assert not shop.maintenance.check().problems
    shop.alter(maximum_version_age_millis=0, minimum_versions_to_keep=1)
    shop.maintenance.expire(alone=True)
    shop.maintenance.vacuum(alone=True)
    assert len([one.path for one in shop.effects.store.list() if one.path.startswith("data/")]) == 1


def test_a_removal_conflicts_with_a_removal_and_not_with_an_addition(shop: Lakehouse) -> None:
    first, second = shop.table("shop.raw").add_files({"a.csv": b"id\n1\n", "b.csv": b"id\n2\n"})
    removal, other = shop.transaction(), shop.transaction()
    removal.table("shop.raw").remove_files([first])
    other.table("shop.raw").remove_files([first, second])
    shop.table("shop.raw").add_files({"c.csv": b"id\n3\n"})
    removal.commit()
    with pytest.raises(ConflictError):
        other.commit()
    assert shop.table("shop.raw").to_arrow()["id"].to_pylist() == [2, 3]


def test_files_are_removed_where_deltacat_reads_the_lakehouse() -> None:
    lake = mangrove.create(f"memory://schemaless-readable-{next(_NUMBERS)}/", compatible_with="deltacat")
    lake.create_namespace("shop")
    table = lake.create_table("shop.raw", schemaless=True)
    first, _ = table.add_files({"a.csv": b"id\n1\n", "b.csv": b"id\n2\n"})
    table.remove_files([first])
    assert table.to_arrow()["id"].to_pylist() == [2]
    assert [delta.type.value for _, delta in table.deltas()] == ["append"]
    table.remove_files(table.files())
    assert table.files() == []


def test_the_name_of_a_file_is_cut_to_the_limit_of_paths(layout: str) -> None:
    settings = LakehouseSettings(file_path_max_size_bytes=120)
    lake = mangrove.create(f"memory://schemaless-{layout}-{next(_NUMBERS)}/", layout=layout, settings=settings)
    lake.create_namespace("shop")
    (file,) = lake.create_table("shop.raw", schemaless=True).add_files({f"{'long ' * 30}.csv": b"id\n1\n"})
    assert (len(file.location) <= 120, file.location[-4:]) == (True, ".csv")
    assert lake.maintenance.check().problems == ()
