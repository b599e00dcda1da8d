"""Maintenance, publication and other readers of tables with inline rows."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import mangrove
from mangrove import FormatError, InvalidInputError, Lakehouse
from mangrove.lakehouse.maintenance import build_conversion_target
from mangrove.local.inline_rows import InlineRowsReader
from mangrove.maintenance.convert.conversion import convert_lakehouse
from mangrove.model.manifests import ARROW_STREAM, DataFile, FileKind
from mangrove.sql.session import SqlSession
from mangrove.storage.memory import MemoryStore

TABLE = "s.t"


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    """Return a lakehouse whose table has a data file, inline rows, and inline keys that delete some of both."""
    made = mangrove.create(tmp_path / "lake", layout=request.param)
    made.create_namespace("s")
    properties = {"write.inline-rows-max-bytes": "2000"}
    table = made.create_table(TABLE, "id bigint not null, v string", keys=["id"], properties=properties)
    table.append([{"id": number, "v": "file"} for number in range(10, 400)])
    table.append([{"id": 1, "v": "inline"}, {"id": 2, "v": "inline"}])
    table.upsert([{"id": 2, "v": "upserted"}, {"id": 10, "v": "upserted"}])
    table.delete_keys([{"id": 1}, {"id": 11}])
    return made


EXPECTED = [(2, "upserted"), (10, "upserted"), *((number, "file") for number in range(12, 400))]


def read(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def count_data_files(lake: Lakehouse) -> int:
    return sum(1 for _ in lake.effects.store.list("data/"))


def test_iceberg_clients_read_inline_rows_from_files_that_vacuum_keeps(lake: Lakehouse) -> None:
    assert count_data_files(lake) == 1
    address = lake.table(TABLE).iceberg()
    assert read(StaticTable.from_metadata(address).scan().to_arrow()) == EXPECTED
    lake.maintenance.vacuum(alone=True)
    assert lake.table(TABLE).iceberg() == address
    assert read(StaticTable.from_metadata(address).scan().to_arrow()) == EXPECTED
    assert read(lake.table(TABLE).to_arrow()) == EXPECTED


@pytest.mark.parametrize("mode", ["full", "minimal"])
def test_exports_contain_inline_rows(lake: Lakehouse, tmp_path: Path, mode: str) -> None:
    lake.maintenance.export(tmp_path / "copy", "copy", mode)
    copy = mangrove.open(tmp_path / "copy")
    assert read(copy.table(TABLE).to_arrow()) == EXPECTED
    assert copy.maintenance.check().problems == ()


@pytest.mark.parametrize("data", ["copy", "reference"])
@pytest.mark.parametrize(("layout", "strict"), [("tree", False), ("tree", True), ("deltacat-2", None)])
def test_a_conversion_keeps_inline_rows_or_writes_them_as_files(
    lake: Lakehouse, tmp_path: Path, layout: str, strict: bool | None, data: str
) -> None:
    has_inline_rows = layout == "tree" and not strict
    before = {version: read(lake.at(version).table(TABLE).to_arrow()) for version in range(3, lake.version + 1)}
    for _ in ("at first", "resumed"):
        report = lake.maintenance.convert(tmp_path / "converted", layout, data=data, strict=strict)
        assert report.is_sound, report
    converted = mangrove.open(tmp_path / "converted")
    (entry,) = [one for one in converted.table(TABLE).scan("id = 2").files() if one.kind is FileKind.DATA][-1:]
    assert entry.is_inline is has_inline_rows
    if data == "copy":
        after = {version: read(converted.at(version).table(TABLE).to_arrow()) for version in before}
        assert after == before
        converted.maintenance.vacuum(alone=True)
        assert read(converted.table(TABLE).to_arrow()) == EXPECTED


def test_a_conversion_without_engines_to_a_strict_tree_refuses_inline_rows(lake: Lakehouse) -> None:
    target = build_conversion_target(MemoryStore("memory://strict/"), "tree", strict=True)
    with pytest.raises(InvalidInputError, match="it has inline rows, which the format of a strict tree does not"):
        convert_lakehouse(lake.maintenance.context(), target)


def test_duckdb_reads_inline_rows(lake: Lakehouse) -> None:
    session = SqlSession(lake, engine="duckdb")
    assert session.run(f"select count(*), min(id), max(v) from {TABLE}").rows() == [(390, 2, "upserted")]


def test_damaged_inline_rows_are_refused(lake: Lakehouse) -> None:
    table = lake.table(TABLE)
    (file,) = [one for one in table.scan("id = 2").files() if one.is_inline and one.kind is FileKind.DATA][:1]
    assert file.inline_rows is not None
    stream = file.inline_rows
    for damaged in (stream[:-40], b"", b"\0" * len(stream)):
        broken = DataFile(file.location, len(damaged), 2, content_type=ARROW_STREAM, inline_rows=damaged)
        with pytest.raises(FormatError, match=r"inline rows of data/.* are damaged"):
            _ = InlineRowsReader(broken).rows
    with pytest.raises(FormatError, match="has 2 inline rows, but its manifest says 3"):
        _ = InlineRowsReader(
            DataFile(file.location, len(stream), 3, content_type=ARROW_STREAM, inline_rows=stream)
        ).rows


def test_an_entry_with_inline_rows_is_a_stream_of_data_or_keys() -> None:
    with pytest.raises(InvalidInputError, match="expected data or key deletes of the content type"):
        DataFile("data/t/f.parquet", 1, 1, inline_rows=b"x")
    with pytest.raises(InvalidInputError, match="has 1 bytes of inline rows, not 2"):
        DataFile("data/t/f.parquet", 2, 1, content_type=ARROW_STREAM, inline_rows=b"x")
