"""The cases that are measured: each builds what it needs and compares one thing."""

import itertools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from measuring import compared
from pyspark.sql import DataFrame, SparkSession

import mangrove
from mangrove.lakehouse.table_rows import stage_write
from mangrove.tables.writing import appended, planned

_COLUMNS = (
    "id",
    "cast(hash(id) as int) as customer",
    "cast(id % 1000 as decimal(10,2)) as amount",
    "id * 0.5D as weight",
    "concat('name-', cast(id % 100000 as string)) as name",
    "timestamp_millis(1700000000000 + id * 1000) as ts",
)


@dataclass
class Setting:
    """One session and one folder, with the tables that several cases use."""

    spark: SparkSession
    folder: Path
    rows: int
    files: int
    planned: int
    upserted: int
    repetitions: int

    def __post_init__(self) -> None:
        self.counter = itertools.count()
        self.lake = mangrove.create(self.folder / "lake")
        self.lake.create_namespace("bench")

    def frame(self, rows: int, files: int, first: int = 0, step: int = 1) -> DataFrame:
        return self.spark.range(first, first + rows * step, step, files).selectExpr(*_COLUMNS)

    def fresh(self) -> Path:
        return self.folder / f"bare-{next(self.counter)}"

    def table(self, name: str, keys: tuple[str, ...] = (), **options: Any) -> Any:
        return self.lake.create_table(f"bench.{name}", self.frame(1, 1).schema, keys=list(keys), **options)

    @cached_property
    def base(self) -> Any:
        """A table of all rows, compacted."""
        table = self.table("base", ("id",))
        table.append(self.frame(self.rows, self.files))
        table.compact(engine="spark")
        return table

    def files_of(self, table: Any) -> list[str]:
        return [self.lake.uri + file.location for file in table.scan().files()]


def everything(frame: DataFrame) -> None:
    """Read all columns of all rows and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def scan(setting: Setting) -> None:
    files = setting.files_of(setting.base)
    schema = setting.spark.read.parquet(files[0]).schema
    compared(
        "full scan of a compacted table",
        lambda: everything(setting.base.to_spark()),
        lambda: everything(setting.spark.read.schema(schema).parquet(*files)),
        1.03,
        setting.repetitions,
    )


def append(setting: Setting) -> None:
    frame = setting.frame(setting.rows, setting.files)
    table = setting.table(f"appended{next(setting.counter)}")
    _writes("append", setting, lambda: table.append(frame), frame, 1.10)


def upsert(setting: Setting) -> None:
    frame = setting.frame(setting.upserted, 2, 7, setting.rows // setting.upserted)
    table = setting.base
    before = setting.lake.version
    _writes(f"upsert of {setting.upserted:,} rows", setting, lambda: table.upsert(frame), frame, 1.3)
    setting.lake.rollback(before)


def _writes(what: str, setting: Setting, ours: Callable[[], None], frame: DataFrame, goal: float) -> None:
    def bare() -> None:
        place = setting.fresh()
        frame.write.parquet(str(place))
        shutil.rmtree(place)

    compared(f"{what}, against df.write.parquet", ours, bare, goal, setting.repetitions)


def merged(setting: Setting) -> None:
    files = setting.files_of(setting.base)
    schema = setting.spark.read.parquet(files[0]).schema
    before = setting.lake.version
    step = setting.rows // setting.upserted
    for number in range(20):
        setting.base.upsert(setting.frame(setting.upserted, 1, number, step))
        if number in (0, 19):
            compared(
                f"scan after {number + 1} upserts of {setting.upserted:,} rows",
                lambda: everything(setting.base.to_spark()),
                lambda: everything(setting.spark.read.schema(schema).parquet(*files)),
                1.4 if number == 0 else 2.0,
                setting.repetitions,
            )
    setting.lake.rollback(before)


def plan(setting: Setting) -> None:
    """Many files that are one file under many names: only planning is measured."""
    table = setting.table("planned")
    table.append(setting.frame(10, 1).coalesce(1))
    (file,) = table.scan().files()
    root = setting.folder / "lake"
    copies = [replace(file, location=f"{file.location}.{number}.parquet") for number in range(setting.planned)]
    for copy in copies:
        os.link(root / file.location, root / copy.location)
    for start in range(0, len(copies), 100):
        write = planned({(): appended(copies[start : start + 100])})
        setting.lake.change(
            lambda transaction, write=write: stage_write(transaction.workspace, table.locator, write, transaction.id)
        )
    files = setting.files_of(table)

    def ours() -> None:
        mangrove.open(setting.folder / "lake").table("bench.planned").to_spark()

    compared(
        f"plan a scan of {setting.planned:,} files, lakehouse just opened",
        ours,
        lambda: setting.spark.read.parquet(*files),
        0.4,
        max(1, setting.repetitions // 2),
    )


def small(setting: Setting) -> None:
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    table = setting.lake.create_table("bench.small", "id bigint, name string")
    folder = setting.fresh()
    folder.mkdir()

    def bare() -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd")
        for name, data in ((f"{next(setting.counter)}.parquet", sink.getvalue()), (f"{next(setting.counter)}", b"x")):
            _durably(folder, name, data)

    compared("append of 3 rows without a JVM, against Parquet + create", lambda: table.append(rows), bare, 3.0, 51)


def _durably(folder: Path, name: str, data: Any) -> None:
    with (folder / f"{name}.new").open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.link(folder / f"{name}.new", folder / name)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def lookup(setting: Setting) -> None:
    wanted = setting.rows // 3
    opened = setting.base.scan(where=f"id = {wanted}")
    total = len(opened.scans) + len(opened.skipped)
    print(f"{f'files of {total} that a look-up of one key opens':<58} {len(opened.files()):>9}", flush=True)


CASES: dict[str, Callable[[Setting], None]] = {
    "small": small,
    "append": append,
    "scan": scan,
    "lookup": lookup,
    "upsert": upsert,
    "merged": merged,
    "plan": plan,
}
