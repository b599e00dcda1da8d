"""The tables that are measured, and the rows that go into them: Spark makes them, so nothing is downloaded."""

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import mangrove

COLUMNS: Final = (
    "id",
    "cast(hash(id) as int) as customer",
    "cast(id % 1000 as decimal(10,2)) as amount",
    "id * 0.5D as weight",
    "concat('name-', cast(id % 100000 as string)) as name",
    "timestamp_millis(1700000000000 + id * 1000) as ts",
)
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "numbers": (),
    "numbers far apart": ("xxhash64(id) as far",),
    "texts": ("concat('key-', lpad(cast(id as string), 12, '0')) as code",),
    "two columns": ("cast(id % 64 as int) as shop", "concat('bill-', cast(id as string)) as bill"),
}
"""Kinds of keys, with the columns that stand before the others; plain numbers are the id itself."""
COMPACTED_FILES_MAX: Final = 10
"""A table of more files is left as it was written, in order of its ids: a compaction would make few files of it."""


@dataclass
class Setting:
    """One session and one folder, with the tables that several cases use."""

    spark: SparkSession
    folder: Path
    rows: int
    files: int
    planned: int
    upserted: int
    upserts: int
    repetitions: int

    def __post_init__(self) -> None:
        self.counter = itertools.count()
        self.lake = mangrove.create(self.folder / "lake")
        self.lake.create_namespace("bench")

    def frame(self, rows: int, files: int, first: int = 0, step: int = 1, kind: str = "numbers") -> DataFrame:
        return self.spark.range(first, first + rows * step, step, files).selectExpr(*KEYS[kind], *COLUMNS)

    def picked(self, number: int) -> DataFrame:
        """Return rows of an upsert whose ids are picked at random, each once."""
        place = f"pmod(xxhash64(id, {number}), {self.rows}L) as id"
        return self.spark.range(0, self.upserted, 1, 1).selectExpr(place).distinct().coalesce(1).selectExpr(*COLUMNS)

    def fresh(self) -> Path:
        return self.folder / f"bare-{next(self.counter)}"

    def table(self, name: str, keys: tuple[str, ...] = (), kind: str = "numbers") -> Any:
        return self.lake.create_table(f"bench.{name}", self.frame(1, 1, kind=kind).schema, keys=list(keys))

    @cached_property
    def base(self) -> Any:
        """A table of all rows, compacted."""
        return self.filled("numbers")

    def filled(self, kind: str) -> Any:
        """Return a new table of all rows with keys of a kind."""
        keys = tuple(text.rpartition(" ")[2] for text in KEYS[kind]) or ("id",)
        table = self.table(f"base{next(self.counter)}", keys, kind)
        table.append(self.frame(self.rows, self.files, kind=kind))
        if self.files <= COMPACTED_FILES_MAX:
            table.compact(engine="spark")
        return table

    def linked(self, table: Any) -> str:
        """Return a folder in which the files of a table lie as well, alone."""
        folder = self.fresh()
        folder.mkdir()
        for file in table.scan().files():
            os.link(self.folder / "lake" / file.location, folder / Path(file.location).name)
        return folder.as_uri()
