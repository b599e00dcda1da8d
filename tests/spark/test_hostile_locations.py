"""A manifest that names files outside its lakehouse opens none of them, whoever reads, publishes, copies or deletes."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from starlette.testclient import TestClient

import mangrove
from mangrove.effects import build_effects
from mangrove.errors import FormatError, StorageError
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.publish.metadata_writer import publish_table
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.lakehouse.table import Table
from mangrove.local.parquet import encode_parquet
from mangrove.maintenance.export_records import EXPORT_RECORD_PATH, ExportRecord, encode_export_record
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.server.access import Access
from mangrove.server.app import build_app
from mangrove.spark.data_source import MangroveSource
from mangrove.spark.file_lists import FileLists, ListedFile
from mangrove.spark.types import to_spark_schema
from mangrove.spark.worker_read import WorkerReader
from mangrove.storage.memory import MemoryStore
from mangrove.wiring import LocalEngines

COLUMNS: Final = "id bigint, name string"
SECRET: Final = [{"id": 666, "name": "secret"}]
REFUSED: Final = r"segment|URI|symbolic link"
NEW: Final = [{"id": 2, "name": "new"}]


def naming(location: str, size_bytes: int) -> Delta:
    """Return a delta with this location, as a program would write it that does not check it."""
    file = DataFile("data/any.parquet", size_bytes, 1, schema_id=0)
    object.__setattr__(file, "location", location)
    return Delta(DeltaType.APPEND, Manifest((file,)))


class Attack:
    """A lakehouse in `lake`, beside a folder `secret` with a file that is not its own."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.folder = folder
        self.secret = folder / "secret" / "s.parquet"
        self.secret.parent.mkdir()
        schema = schema_to_arrow(parse_schema(COLUMNS))
        self.data = bytes(encode_parquet(pa.Table.from_pylist(SECRET, schema=schema)))
        self.secret.write_bytes(self.data)
        self.root = folder / "lake"
        lake = mangrove.create(self.root, layout=layout)
        lake.create_namespace("s")
        self.id = lake.create_table("s.t", COLUMNS, keys=["id"]).id
        lake.table("s.t").append([{"id": 1, "name": "own"}])

    def name(self, location: str) -> None:
        """Commit a delta with this location."""
        with mangrove.open(self.root).transaction() as transaction:
            transaction.add_delta("s.t", (), naming(location, len(self.data)))

    def opened(self) -> Lakehouse:
        return mangrove.open(self.root)

    def copies(self) -> list[Path]:
        """Return the files outside `secret` that hold its bytes; links lead there and hold nothing."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        # What lies below a linked folder is the secret itself.
        own = [path for path in files if path.resolve() != self.secret]
        found = []
        for path in own:
            # The hint to the newest version is written in the background.
            with suppress(FileNotFoundError):
                found += [path] if path.read_bytes() == self.data else []
        return found


def by_dots(attack: Attack) -> str:
    return "data/../../secret/s.parquet"


def by_escaped_dots(attack: Attack) -> str:
    return "data/%2e%2e/%2E./secret/s.parquet"


def by_uri(attack: Attack) -> str:
    return attack.secret.as_uri()


def by_uri_with_dots(attack: Attack) -> str:
    return f"{attack.root.as_uri()}/data/../../secret/s.parquet"


def by_linked_file(attack: Attack) -> str:
    (attack.root / "data" / attack.id / "linked.parquet").symlink_to(attack.secret)
    return f"data/{attack.id}/linked.parquet"


def by_linked_folder(attack: Attack) -> str:
    (attack.root / "data" / "linked").symlink_to(attack.secret.parent)
    return "data/linked/s.parquet"


ATTACKS: Final = [by_dots, by_escaped_dots, by_uri, by_uri_with_dots, by_linked_file, by_linked_folder]


def streamed(lake: Lakehouse) -> list[Any]:
    source = MangroveSource(CaseInsensitiveDict({"lake": lake.uri, "path": "s.t"}))
    reader: Any = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    return [batch for piece in reader.partitions(start, end) for batch in reader.read(piece)]


def loaded_over_rest(lake: Lakehouse) -> str:
    with TestClient(build_app(lake, Access("127.0.0.1")), base_url="http://127.0.0.1") as client:
        answer = client.get("/iceberg/v1/namespaces/s/tables/t")
    if answer.status_code == 200:
        return answer.text
    raise FormatError(answer.json()["error"]["message"])


def merged(table: Table, engine: str) -> object:
    merge = table.merge(NEW, "t.id = s.id", engine=engine)
    return merge.when_matched_delete().when_not_matched_insert().execute()


READERS: Final[dict[str, Callable[[Lakehouse], object]]] = {
    "arrow": lambda lake: lake.table("s.t").to_arrow(),
    "arrow with a condition": lambda lake: lake.table("s.t").to_arrow(where="id > 1"),
    "duckdb": lambda lake: lake.table("s.t").to_duckdb().fetchall(),
    "sql": lambda lake: lake.sql("SELECT * FROM s.t", engine="duckdb").collect(),
    "polars": lambda lake: lake.table("s.t").to_polars(),
    "changes": lambda lake: lake.table("s.t").changes(2),
    "delete": lambda lake: lake.table("s.t").delete("name = 'own'", engine="local"),
    "update": lambda lake: lake.table("s.t").update({"name": "x"}, engine="local"),
    "merge": lambda lake: merged(lake.table("s.t"), "local"),
    "overwrite": lambda lake: lake.table("s.t").overwrite(NEW, "id = 2", engine="local"),
    "compaction": lambda lake: lake.table("s.t").compact(full=True, engine="local"),
    "stream": streamed,
    "iceberg": lambda lake: lake.table("s.t").iceberg(),
    "rest": loaded_over_rest,
}
ON_SPARK: Final[dict[str, Callable[[Lakehouse], object]]] = {
    "to_spark": lambda lake: lake.table("s.t").to_spark().collect(),
    "to_spark with a condition": lambda lake: lake.table("s.t").to_spark(where="id > 1").collect(),
    "sql": lambda lake: lake.sql("SELECT * FROM s.t").collect(),
    "changes": lambda lake: lake.table("s.t").changes(2, engine="spark").collect(),
    "delete": lambda lake: lake.table("s.t").delete("name = 'own'", engine="spark"),
    "update": lambda lake: lake.table("s.t").update({"name": "x"}, engine="spark"),
    "merge": lambda lake: merged(lake.table("s.t"), "spark"),
    "overwrite": lambda lake: lake.table("s.t").overwrite(NEW, "id = 2", engine="spark"),
    "compaction": lambda lake: lake.table("s.t").compact(full=True, engine="spark"),
}
LAKEHOUSES: Final = pytest.mark.parametrize("layout", ["tree", "deltacat"])


@pytest.mark.parametrize("escape", ATTACKS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_neither_reads_nor_publication_open_a_file_outside_the_root(
    tmp_path: Path, layout: str, escape: Callable[[Attack], str]
) -> None:
    attack = Attack(tmp_path, layout)
    attack.name(escape(attack))
    for name, read in READERS.items():
        with pytest.raises((FormatError, StorageError), match=REFUSED):
            pytest.fail(f"{name} gave {read(attack.opened())}")
    assert attack.copies() == []


@pytest.mark.interop
@pytest.mark.parametrize("escape", ATTACKS)
@LAKEHOUSES
def test_spark_opens_no_file_outside_the_root(
    tmp_path: Path, layout: str, escape: Callable[[Attack], str], spark: SparkSession
) -> None:
    assert spark is not None
    attack = Attack(tmp_path, layout)
    attack.name(escape(attack))
    for name, read in ON_SPARK.items():
        with pytest.raises((FormatError, StorageError), match=REFUSED):
            pytest.fail(f"{name} gave {read(attack.opened())}")
    assert attack.copies() == []


@pytest.mark.parametrize("escape", ATTACKS)
@LAKEHOUSES
def test_check_reports_a_file_outside_the_root_and_maintenance_ignores_it(
    tmp_path: Path, layout: str, escape: Callable[[Attack], str]
) -> None:
    attack = Attack(tmp_path, layout)
    attack.name(escape(attack))
    report = attack.opened().maintenance.check(engine="local")
    assert any(word in problem.rule for problem in report for word in ("segment", "outside", "URI", "symbolic link")), (
        str(report)
    )
    tries: list[Callable[[], object]] = [
        lambda: attack.opened().maintenance.vacuum(alone=True),
        lambda: attack.opened().maintenance.expire(alone=True),
        lambda: attack.opened().maintenance.export(tmp_path / "export", "copy"),
        lambda: attack.opened().maintenance.convert(tmp_path / "tree", layout="tree"),
        lambda: attack.opened().maintenance.convert(tmp_path / "deltacat", layout="deltacat"),
    ]
    for attempt in tries:
        with suppress(FormatError, StorageError):
            attempt()
    assert attack.secret.read_bytes() == attack.data
    assert attack.copies() == []


@pytest.mark.interop
@pytest.mark.parametrize("is_believed", [True, False])
def test_spark_reads_paths_literally(tmp_path: Path, is_believed: bool, spark: SparkSession) -> None:
    attack = Attack(tmp_path, "tree")
    lists = FileLists(spark, root_uri=f"{attack.root.as_uri()}/", _is_trusted={False: is_believed})
    columns = to_spark_schema(parse_schema(COLUMNS))
    odd = attack.root / "data" / "50%25 {a,b} [x]* ü?" / "a b.parquet"
    odd.parent.mkdir()
    odd.write_bytes(attack.data)
    own = ListedFile(lists.root_uri + str(odd.relative_to(attack.root)), len(attack.data))
    assert [row.id for row in lists.read([own], columns).collect()] == [666]
    for path in ("data{/.}.{/.}./secret/s.parquet", "data/%2e%2e/%2e%2e/secret/s.parquet", "data/*/s.parquet"):
        with suppress(PySparkException, Py4JError):
            # Where it expects files to come and go, Spark says nothing of one that is missing.
            assert lists.read([ListedFile(lists.root_uri + path, len(attack.data))], columns).collect() == []


@pytest.mark.interop
def test_a_worker_opens_no_file_outside_the_root(tmp_path: Path, spark: SparkSession) -> None:
    attack = Attack(tmp_path, "tree")
    reader = WorkerReader(f"{attack.root.as_uri()}/", None)
    columns = to_spark_schema(parse_schema(COLUMNS))
    for escape in ATTACKS:
        with pytest.raises(PySparkException, match=REFUSED):
            reader.read(spark, [(escape(attack), len(attack.data), 0)], columns).collect()


@pytest.mark.interop
@LAKEHOUSES
def test_spark_writes_no_file_through_a_link(tmp_path: Path, layout: str, spark: SparkSession) -> None:
    attack = Attack(tmp_path, layout)
    folder = attack.root / "data" / attack.id
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    files = sorted(path.name for path in (tmp_path / "moved").iterdir())
    with pytest.raises(StorageError, match="symbolic link"):
        attack.opened().table("s.t").append(spark.createDataFrame([(2, "x")], COLUMNS))
    assert sorted(path.name for path in (tmp_path / "moved").iterdir()) == files


def test_a_file_that_became_a_link_is_not_published_again(tmp_path: Path) -> None:
    attack = Attack(tmp_path, "tree")
    assert attack.opened().table("s.t").iceberg().startswith("file://")
    (own,) = (attack.root / "data" / attack.id).glob("*.parquet")
    own.unlink()
    own.symlink_to(attack.secret)
    with pytest.raises(StorageError, match="symbolic link"):
        attack.opened().table("s.t").iceberg()
    with pytest.raises(FormatError, match="symbolic link"):
        loaded_over_rest(attack.opened())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_lakehouse", [False, True])
def test_a_lakehouse_with_a_forged_export_record_is_rejected(tmp_path: Path, layout: str, is_lakehouse: bool) -> None:
    attack = Attack(tmp_path, layout)
    if is_lakehouse:
        mangrove.create(attack.secret.parent, layout=layout)
    attack.name(attack.secret.name)
    record = ExportRecord(f"{attack.secret.parent.as_uri()}/", "copy", 1, "minimal")
    (attack.root / EXPORT_RECORD_PATH).write_bytes(encode_export_record(record))
    with pytest.raises(FormatError, match="claims to be an export"):
        pytest.fail(f"it gave {attack.opened().table('s.t').to_arrow()}")
    (problem,) = mangrove.check(attack.root)
    assert "claims to be an export" in problem.rule


def test_an_export_opens_through_a_link_to_its_folder_until_its_source_drops_it(tmp_path: Path) -> None:
    attack = Attack(tmp_path, "tree")
    attack.opened().maintenance.export(tmp_path / "my copy", "copy", "minimal")
    (tmp_path / "linked").symlink_to(tmp_path / "my copy")
    for place in ("my copy", "linked"):
        assert mangrove.open(tmp_path / place).table("s.t").to_arrow().num_rows == 1
    attack.opened().maintenance.drop_export("copy")
    with pytest.raises(FormatError, match="records no export to that place"):
        mangrove.open(tmp_path / "my copy")


def test_published_metadata_that_references_files_outside_is_rejected(tmp_path: Path) -> None:
    attack = Attack(tmp_path, "tree")
    metadata = Path(attack.opened().table("s.t").iceberg().removeprefix("file://"))
    text = metadata.read_text()
    for before in ("-snap.avro", f'data/{attack.id}/iceberg/staging"'):
        assert before in text
        metadata.write_text(text.replace(before, f"other/{before}"))
        with pytest.raises(FormatError, match="references files outside the table's folder"):
            attack.opened().table("s.t").iceberg()


class Noting(MemoryStore):
    """A store of one prefix of a bucket that notes which paths it is asked for."""

    def __init__(self) -> None:
        super().__init__("memory://bucket/lake/")
        self.paths: list[str] = []

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.paths.append(path)
        return super().read(path, start, length)


@pytest.mark.parametrize("location", ["data/../../other-prefix/x", "data/%2e%2e/%2e%2e/other-prefix/x"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_request_leaves_the_prefix_of_a_bucket(layout: str, location: str) -> None:
    store = Noting()
    lake = create_on_store(build_effects(store), layout=layout, engines=LocalEngines)
    lake.create_namespace("s")
    lake.create_table("s.t", COLUMNS)
    with lake.transaction() as transaction:
        transaction.add_delta("s.t", (), naming(location, 100))
    lake = open_on_store(build_effects(store), engines=LocalEngines)
    for read in (lambda: lake.table("s.t").to_arrow(), lambda: publish_table(store, lake.table("s.t").state(), 0)):
        with pytest.raises(FormatError, match="segment"):
            read()
    assert any("segment" in problem.rule for problem in lake.maintenance.check())
    assert not [path for path in store.paths if "other-prefix" in path]
