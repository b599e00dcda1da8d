"""Running the SQL logic tests of public engines against the lakehouse, and counting how they end.

    python benchmarks/logic_tests --report report.jsonl --engine DuckDB duckdb FOLDER_OR_FILE …

None of the files is kept here: fetch an engine's sources and name their folders.
Statements are put into Spark's dialect by sqlglot where it can. Each record ends as

    same         the rows are those that the file says, or both sides refuse it
    dialect      it has words that only the engine has, or means something else by a
                 decision of ours; which one is counted
    refused      we refuse what the engine takes, for none of these reasons
    different    the rows are others, or we take what the engine refuses
    not judged   it is about the engine itself (settings, plans, storage), or about a
                 table of which a statement before it was not carried out

Every `refused` and `different` is worth a look: it is a bug, or a dialect to be named.
Where a statement was refused for its RETURNING or for constraints that we do not
have, it is carried out without them, so that what follows can be judged. Where we
took what the engine refuses, it is undone for the same purpose.
"""

import argparse
import contextlib
import json
import logging
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from answers import same_rows
from dialects import is_about_engine, reason_for_taking, reason_of, reason_of_refusal, reduced, target_of, translated
from pyspark.sql import SparkSession
from records import LOAD, RESTART, Record, records_in

import mangrove
from mangrove.errors import ConflictError, MangroveError
from mangrove.spark.session import local_session
from mangrove.spark.statements import SPARK_ERRORS
from mangrove.sql.session import SqlSession

ENDS: Final = ("same", "dialect", "refused", "different", "not judged")
SETTINGS: Final = {
    "spark.master": "local[1]",
    "spark.default.parallelism": "1",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""What makes Spark quick where tables have few rows."""
_SUFFIXES: Final = (".test", ".slt", ".slt.part", ".sql.out")
_MAKES: Final = re.compile(
    r"\s*(create\s+(or\s+replace\s+)?(sequence|type|macro|trigger)|copy|attach|explain\s+analyze)\b", re.IGNORECASE
)
"""What is about the engine, but makes something that later statements may need."""
_IS_QUERY: Final = re.compile(r"\s*(select|values|from|table)\b", re.IGNORECASE)
_HASH_LINE: Final = re.compile(r"^\d+ values hashing to [0-9a-f]+$")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a record ended."""

    file: str
    line: int
    end: str
    reason: str
    sql: str
    detail: str = ""
    """What we said, or found in the place of what."""
    message: str = ""
    """What the engine says where it refuses."""


class _Run:
    """One file on a lakehouse of its own."""

    def __init__(self, name: str, folder: Path, dialect: str) -> None:
        self._name, self._dialect = name, dialect
        self._lake = mangrove.create(folder)
        self._lake.create_namespace("default")
        self._sessions: dict[str, SqlSession] = {}
        self._lost: set[str] = set()
        """Tables that no longer are what they are in the engine; the empty name stands for all."""

    def restart(self) -> None:
        """Forget the connections with their transactions."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def outcome(self, record: Record) -> Outcome:
        """Run a record, and judge it."""
        end, reason, detail = self._judged(record)
        return Outcome(self._name, record.line, end, reason, record.sql, detail, record.message)

    def _judged(self, record: Record) -> tuple[str, str, str]:
        is_hash = record.expected is not None and any(map(_HASH_LINE.match, record.expected))
        if is_about_engine(record.sql) or is_hash or record.is_for_others:
            if _MAKES.match(record.sql):
                self._lose(record.sql)
            if re.match(r"\s*create\s+trigger\b", record.sql, re.IGNORECASE):
                self._lost.add("")
            return "not judged", "the engine itself", ""
        session = self._sessions.setdefault(record.connection, SqlSession(self._lake))
        before = self._lake.version
        is_lost = self._is_lost(record.sql)
        if is_lost and _IS_QUERY.match(record.sql):
            return "not judged", "after what was not carried out", ""
        try:
            *_, result = session.script(translated(record.sql, self._dialect))
            rows = result.rows() if result.counts is None else [(_touched(result.counts),)]
        except (MangroveError, *SPARK_ERRORS) as error:
            return self._refused(record, session, error, is_lost=is_lost)
        if record.sql.lower().lstrip().startswith(("drop", "create")):
            self._lost.discard(target_of(record.sql))
        if record.fails:
            return self._taken(record, session, before, f"taken: {rows[:20]}", is_lost=is_lost)
        if record.expected is not None and not same_rows(record, rows):
            if is_lost:
                return "not judged", "after what was not carried out", ""
            detail = f"expected {record.expected[:20]}, found {rows[:20]}"
            if same_rows(record, rows, in_any_order=True) and any(None in row for row in rows):
                return "dialect", "where nulls stand in ORDER BY", detail
            return "different", reason_of(record.sql), detail
        return "same", "", ""

    def _refused(
        self, record: Record, session: SqlSession, error: BaseException, *, is_lost: bool
    ) -> tuple[str, str, str]:
        said = str(error)
        reason = reason_of(record.sql) or reason_of_refusal(said)
        if isinstance(error, ConflictError):
            self._lost.add("")
            return ("same", "", said) if record.fails else ("dialect", "changes of one table may conflict", said)
        if record.sql.lower().lstrip().startswith("drop"):
            self._lost.discard(target_of(record.sql))
        if record.fails:
            return ("dialect", reason, said) if reason in _ONLY_ELSEWHERE else ("same", "", said)
        if is_lost and not reason:
            self._lose(record.sql)
            return "not judged", "after what was not carried out", said
        if not self._done_otherwise(record.sql, session):
            self._lose(record.sql)
        return "dialect" if reason else "refused", reason, said

    def _done_otherwise(self, sql: str, session: SqlSession) -> bool:
        text = reduced(sql, self._dialect)
        if text is None or re.search(r"\b(generated|as\s+\w+\s*[-+*/(]|as\s*\()", sql, re.IGNORECASE):
            return False  # A column that is computed elsewhere would be empty here.
        try:
            session.run(text)
        except (MangroveError, *SPARK_ERRORS):
            return False
        return True

    def _taken(
        self, record: Record, session: SqlSession, before: int, detail: str, *, is_lost: bool
    ) -> tuple[str, str, str]:
        """Judge what the engine refuses, and undo it."""
        if self._lake.version != before:
            self._lake.rollback(to=before)
        elif session.in_transaction:
            self._lose(record.sql)
        reason = reason_for_taking(record)
        if is_lost:
            return "not judged", "after what was not carried out", ""
        return "dialect" if reason else "different", reason, detail

    def _lose(self, sql: str) -> None:
        if re.match(r"\s*truncate\b", sql, re.IGNORECASE):
            self._lost |= {*re.findall(r"\w+", sql.lower())}
        elif not _IS_QUERY.match(sql):
            self._lost.add(target_of(sql))

    def _is_lost(self, sql: str) -> bool:
        return "" in self._lost or not self._lost.isdisjoint(re.findall(r"\w+", sql.lower()))


_ONLY_ELSEWHERE: Final = ("RETURNING", "ON CONFLICT, UPSERT, REPLACE", "UPDATE … FROM", "DELETE … USING")
"""Where such a statement fails in the engine, that we refuse it too says nothing."""


def _touched(counts: Any) -> int:
    return (counts.inserted or 0) + (counts.updated or 0) + (counts.deleted or 0) + counts.upserted


def _files(places: list[str]) -> Iterator[Path]:
    for place in map(Path, places):
        yield from (
            sorted(one for one in place.rglob("*") if one.name.endswith(_SUFFIXES)) if place.is_dir() else [place]
        )


def main() -> None:
    """Run all files, write each outcome, and print how many ended how."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--engine",
        action="append",
        nargs="+",
        required=True,
        metavar=("NAME DIALECT", "PLACE"),
        help="an engine, what sqlglot calls its dialect, and its folders or files of logic tests",
    )
    parser.add_argument("--report", help="a file for one line of JSON a record")
    requested = parser.parse_args()
    if any(len(words) < 3 for words in requested.engine):
        parser.error("--engine takes the engine's name, its dialect and at least one folder or file")
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    local_session(SETTINGS)
    reasons: Counter[tuple[str, str]] = Counter()
    sys.stdout.write(f"| engine | files | records | {' | '.join(ENDS)} |\n|---|{'---:|' * (len(ENDS) + 2)}\n")
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(Path(requested.report).open("w", encoding="utf-8")) if requested.report else None
        for name, dialect, *places in requested.engine:
            ends: Counter[str] = Counter()
            files = list(_files(places))
            for number, path in enumerate(files, 1):
                ends += _ends_of(path, dialect, reasons, report, f"{name} {number} of {len(files)}")
            counts = " | ".join(f"{ends[end]:,}" for end in ENDS)
            sys.stdout.write(f"| {name} | {len(files)} | {ends.total():,} | {counts} |\n")
            sys.stdout.flush()
    for (end, reason), number in sorted(reasons.items(), key=lambda one: (ENDS.index(one[0][0]), -one[1])):
        sys.stdout.write(f"{number:6}  {end:10} {reason}\n")


def _ends_of(
    path: Path, dialect: str, reasons: Counter[tuple[str, str]], report: TextIO | None, progress: str
) -> Counter[str]:
    """Run a file, and return how many of its records ended how."""
    began, ends = time.monotonic(), Counter[str]()
    for outcome in _outcomes(path, dialect):
        ends[outcome.end] += 1
        reasons[outcome.end, outcome.reason] += 1
        if report is not None:
            report.write(json.dumps(asdict(outcome), ensure_ascii=False) + "\n")
            report.flush()
    counts = ", ".join(f"{ends[end]} {end}" for end in ENDS if ends[end])
    sys.stderr.write(f"{progress}  {path.name}: {counts}  ({time.monotonic() - began:.1f} s)\n")
    return ends


def _outcomes(path: Path, dialect: str) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = _Run(path.name, Path(folder) / "lake", dialect)
        for record in records_in(path):
            if record.sql == LOAD:
                run = _Run(path.name, Path(folder) / f"lake-{record.line}", dialect)
            elif record.sql == RESTART:
                run.restart()
            else:
                yield run.outcome(record)
        # Temporary views are Spark's, and would hide tables of the next file.
        spark = SparkSession.active()
        for view in spark.sql("SHOW VIEWS").collect():
            if view.isTemporary:
                spark.catalog.dropTempView(view.viewName)


if __name__ == "__main__":
    main()
