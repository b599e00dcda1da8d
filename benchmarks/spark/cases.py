"""The cases that are measured: each builds what it needs, compares something, and yields what it found."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from measuring import Comparison, compared
from pyspark.sql import DataFrame
from report import Counted
from setting import Setting

import mangrove
from mangrove.lakehouse.table_staging import stage_write
from mangrove.tables.write_plan import build_append_delta, plan_write

Outcomes: TypeAlias = Iterator[Comparison | Counted]


def everything(frame: DataFrame) -> None:
    """Read all columns of all rows and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def scan(setting: Setting) -> Outcomes:
    yield _scanned("full scan of a compacted table", setting, setting.base, setting.linked(setting.base), 1.03)


def _scanned(what: str, setting: Setting, table: Any, folder: str, goal: float) -> Comparison:
    """Compare with Spark on a folder, which it lists at once, told beforehand which columns there are."""
    schema = setting.spark.read.parquet(folder).schema

    def bare() -> None:
        everything(setting.spark.read.schema(schema).parquet(folder))

    return compared(what, lambda: everything(table.to_spark()), bare, goal, setting.repetitions)


def append(setting: Setting) -> Outcomes:
    frame = setting.frame(setting.rows, setting.files)
    table = setting.table(f"appended{next(setting.counter)}")
    yield _written("append", setting, lambda: table.append(frame), frame, 1.10)


def upsert(setting: Setting) -> Outcomes:
    frame = setting.frame(setting.upserted, 2, 7, setting.rows // setting.upserted)
    table = setting.base
    before = setting.lake.version
    yield _written(f"upsert of {setting.upserted:,} rows", setting, lambda: table.upsert(frame), frame, 1.3)
    setting.lake.rollback(before)


def _written(what: str, setting: Setting, ours: Callable[[], None], frame: DataFrame, goal: float) -> Comparison:
    places: list[Path] = []

    def bare() -> None:
        places.append(setting.fresh())
        frame.write.parquet(str(places[-1]))

    found = compared(f"{what}, against df.write.parquet", ours, bare, goal, setting.repetitions)
    for place in places:
        shutil.rmtree(place)
    return found


def merged(setting: Setting) -> Outcomes:
    yield from _merged(setting, setting.base, "numbers", _spread(setting, "numbers"))


def merged_picked(setting: Setting) -> Outcomes:
    yield from _merged(setting, setting.base, "numbers picked at random", setting.picked)


def merged_far(setting: Setting) -> Outcomes:
    yield from _merged_kind(setting, "numbers far apart")


def merged_texts(setting: Setting) -> Outcomes:
    yield from _merged_kind(setting, "texts")


def merged_two(setting: Setting) -> Outcomes:
    yield from _merged_kind(setting, "two columns")


def _merged_kind(setting: Setting, kind: str) -> Outcomes:
    yield from _merged(setting, setting.filled(kind), kind, _spread(setting, kind))


def _spread(setting: Setting, kind: str) -> Callable[[int], DataFrame]:
    """Return what makes the rows of each upsert, spread over the table; none hides rows of another."""
    step = setting.rows // setting.upserted
    return lambda number: setting.frame(setting.upserted, 1, number, step, kind)


def _merged(setting: Setting, table: Any, keys: str, rows_of: Callable[[int], DataFrame]) -> Outcomes:
    folder = setting.linked(table)
    before = setting.lake.version
    for number in range(setting.upserts):
        table.upsert(rows_of(number))
        if number in (0, setting.upserts - 1):
            what = f"scan after {number + 1} upserts of {setting.upserted:,} rows, keys are {keys}"
            yield _scanned(what, setting, table, folder, 1.4 if number == 0 else 2.0)
    setting.lake.rollback(before)


def plan(setting: Setting) -> Outcomes:
    """Many files that are one file under many names: only planning is measured."""
    table = setting.table(f"planned{next(setting.counter)}")
    table.append(setting.frame(10, 1).coalesce(1))
    (file,) = table.scan().files()
    root = setting.folder / "lake"
    copies = [replace(file, location=f"{file.location}.{number}.parquet") for number in range(setting.planned)]
    for copy in copies:
        os.link(root / file.location, root / copy.location)
    for start in range(0, len(copies), 100):
        write = plan_write({(): build_append_delta(copies[start : start + 100])})
        setting.lake._change(
            lambda transaction, write=write: stage_write(transaction.workspace, table.locator, write, transaction.id)
        )
    files = [setting.lake.uri + one.location for one in table.scan().files()]
    yield compared(
        f"plan a scan of {setting.planned:,} files, lakehouse just opened",
        lambda: mangrove.open(root).table(str(table.locator)).to_spark(),
        lambda: setting.spark.read.parquet(*files),
        0.4,
        max(1, setting.repetitions // 2),
    )


def lookup(setting: Setting) -> Outcomes:
    opened = setting.base.scan(where=f"id = {setting.rows // 3}")
    yield Counted("files that a look-up of one key opens", len(opened.files()), 2)


CASES: dict[str, Callable[[Setting], Outcomes]] = {
    "plan": plan,
    "append": append,
    "scan": scan,
    "lookup": lookup,
    "upsert": upsert,
    "merged": merged,
    "merged-picked": merged_picked,
    "merged-far": merged_far,
    "merged-texts": merged_texts,
    "merged-two": merged_two,
}
WITHOUT_SIZE = ("plan",)
"""Cases that no number of rows or files changes, so they run at the first size only."""
