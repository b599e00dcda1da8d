"""Running the SQL logic tests of public engines against the lakehouse, and counting how they end.

    python benchmarks/logic_tests.py --dialect duckdb --report report.jsonl FOLDER_OR_FILE …

The files are in the format that SQLite made known as sqllogictest, with the words
that DuckDB and DataFusion added. None of them is kept here: fetch an engine's
sources and name their folders. Statements are put into Spark's dialect by sqlglot
where it can. Each record ends as one of

    same         the rows are those that the file says, or both sides refuse it
    refused      we refuse what the engine takes, for the reason that is counted
    different    the rows are others, or we take what the engine refuses
    follows      it cannot be judged, because something before it was refused
    skipped      it is about the engine itself: its settings, plans or storage

Every line of `different` is worth a look: it is a bug, or a dialect to be named.
"""

import argparse
import contextlib
import json
import logging
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import sqlglot
from sqlglot.errors import SqlglotError

import mangrove
from mangrove.errors import MangroveError
from mangrove.spark.session import local_session
from mangrove.spark.statements import spark_errors
from mangrove.sql.session import SqlSession

LOOPS_MAX: Final = 20
"""A loop of more rounds is about volume, not about meaning."""
_VALUES_LINE: Final = re.compile(r"^\d+ values hashing to [0-9a-f]+$")
_ENGINE_ITSELF: Final = re.compile(
    r"^\s*(pragma|set|reset|checkpoint|create\s+(unique\s+)?index|drop\s+index|explain|export|import|load|install"
    r"|attach|detach|copy|analyze|vacuum|create\s+(sequence|type|macro|trigger))\b",
    re.IGNORECASE,
)
_REASONS: Final = {
    "RETURNING": r"\breturning\b",
    "ON CONFLICT, INSERT OR REPLACE": r"\bon\s+conflict\b|\binsert\s+or\s+(replace|ignore)\b",
    "UPDATE … FROM": r"\bupdate\b.*\bset\b.*\bfrom\b",
    "DELETE … USING": r"\bdelete\b.*\busing\b",
    "UNIQUE, REFERENCES or computed columns": r"\bcreate\b.*\b(unique|references|foreign|generated|as\s*\()",
    "MERGE … DO NOTHING, ERROR, USING (…) or INSERT without columns": (
        r"\bmerge\b.*(do\s+nothing|then\s+error|using\s*\(\w+\)|insert(\s+by\s+name|\s+default|\s*$|\s+when|\s+values))"
    ),
    "DEFAULT VALUES": r"\bdefault\s+values\b",
    "temporary tables": r"\bcreate\s+(or\s+replace\s+)?(temp|temporary)\s+table\b",
    "changes inside WITH": r"\bwith\b.*\bas\s*\(\s*(insert|update|delete|merge)\b",
    "types and functions of the engine": (
        r"\b(unnest|generate_series|hugeint|uhugeint|blob|rowid|struct_pack|list_value|range|uuid|bit|enum|arrow_typeof)\b|\{|\["
    ),
}


@dataclass(frozen=True, slots=True)
class Record:
    """A statement or query of a file, with what is expected of it."""

    line: int
    sql: str
    fails: bool = False
    expected: tuple[str, ...] | None = None
    columns: int = 0
    sort: str = "nosort"
    connection: str = ""
    is_for_others: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a record ended."""

    file: str
    line: int
    end: str
    reason: str
    sql: str
    detail: str = ""


def records_of(text: str) -> Iterator[Record]:
    """Yield the records of a file in order, loops written out; those for other engines are left out."""
    blocks = [
        (number, block)
        for number, block in _blocks(text)
        if not all(line.startswith("#") or not line.strip() for line in block)
    ]
    yield from _records(blocks, {})


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    block: list[str] = []
    start = 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip():
            start = start if block else number
            block.append(line)
        elif block:
            yield start, block
            block = []


def _records(blocks: list[tuple[int, list[str]]], variables: dict[str, str]) -> Iterator[Record]:
    place = 0
    while place < len(blocks):
        number, block = blocks[place]
        lines = [line for line in block if not line.startswith("#")]
        words = lines[0].split()
        if words[0] == "halt" or words[:2] == ["mode", "skip"]:
            return
        if words[0] in ("loop", "foreach", "concurrentloop", "concurrentforeach"):
            inner, place = _loop(blocks, place)
            rounds = _rounds(words)
            for value in rounds if len(rounds) <= LOOPS_MAX else ():
                yield from _records(inner, variables | {words[1]: value})
            continue
        record = _record(number, lines, variables)
        if record is not None:
            yield record
        place += 1


def _loop(blocks: list[tuple[int, list[str]]], place: int) -> tuple[list[tuple[int, list[str]]], int]:
    """Return what stands inside the loop that begins at a place, and the place behind it."""
    depth, inner = 0, []
    first_number, first_block = blocks[place]
    rest = [line for line in first_block if not line.startswith("#")][1:]
    if rest:
        inner.append((first_number, rest))
    depth, place = 1, place + 1
    while place < len(blocks):
        number, block = blocks[place]
        heads = [line.split()[0] for line in block]
        place += 1
        depth += sum(head in ("loop", "foreach", "concurrentloop") for head in heads) - heads.count("endloop")
        kept = [line for line in block if line.split()[0] != "endloop"] if depth == 0 else block
        if kept:
            inner.append((number, kept))
        if depth == 0:
            break
    return inner, place


def _rounds(words: list[str]) -> list[str]:
    if words[0].endswith("loop"):
        return [str(value) for value in range(int(words[2]), int(words[3]))] if len(words) > 3 else []
    return words[2:]


def _record(number: int, lines: list[str], variables: dict[str, str]) -> Record | None:
    is_for_others = False
    while lines and lines[0].split()[0] in ("skipif", "onlyif"):
        is_for_others = is_for_others or lines[0].startswith("onlyif")
        lines = lines[1:]
    if not lines or lines[0].split()[0] not in ("statement", "query"):
        return None
    words = lines[0].split()
    body = [_filled(line, variables) for line in lines[1:]]
    sql, expected = body, None
    if "----" in body:
        cut = body.index("----")
        sql, expected = body[:cut], tuple(body[cut + 1 :])
    text = "\n".join(sql).strip().rstrip(";")
    if words[0] == "statement":
        connection = words[2] if len(words) == 3 else ""
        return Record(number, text, words[1] == "error", None, 0, "nosort", connection, is_for_others)
    sort = next((word for word in words[2:] if word in ("nosort", "rowsort", "valuesort")), "nosort")
    connection = next((word for word in words[2:] if word.startswith("con")), "")
    types = words[1] if len(words) > 1 else ""
    if types == "error":
        return Record(number, text, fails=True, connection=connection, is_for_others=is_for_others)
    return Record(
        number,
        text,
        expected=expected or (),
        columns=len(types),
        sort=sort,
        connection=connection,
        is_for_others=is_for_others,
    )


def _filled(line: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        line = line.replace(f"${{{name}}}", value)
    return line


def translated(sql: str, dialect: str) -> str:
    """Return the statement in Spark's dialect, or as it is where sqlglot does not know it."""
    if dialect in ("", "spark"):
        return sql
    if re.search(r"\bmerge\s+into\b", sql, re.IGNORECASE):
        # sqlglot takes brackets away that Spark wants around the source.
        return sql.replace('"', "`")
    sql = re.sub(r"\b(from|join)\s+range\s*\(", r"\1 spark_range(", sql, flags=re.IGNORECASE)
    with contextlib.suppress(SqlglotError, RecursionError):
        found = sqlglot.transpile(sql, read=dialect, write="spark")
        if len(found) == 1:
            sql = str(found[0])
    return re.sub("spark_range", "range", sql, flags=re.IGNORECASE)


def same_rows(record: Record, rows: list[tuple[Any, ...]]) -> bool:
    """Return whether the rows are those that the record expects."""
    assert record.expected is not None
    expected = _table(record.expected, record.columns)
    found = [[_shown(value) for value in row] for row in rows]
    if record.sort == "valuesort":
        expected, found = ([[value] for row in side for value in row] for side in (expected, found))
    if record.sort != "nosort" or not re.search(r"\border\s+by\b", record.sql, re.IGNORECASE):
        expected, found = sorted(expected), sorted(found)
    return len(expected) == len(found) and all(
        len(one) == len(other) and all(map(_same, one, other)) for one, other in zip(expected, found, strict=True)
    )


def _table(lines: tuple[str, ...], columns: int) -> list[list[str]]:
    if columns > 1 and not any("\t" in line for line in lines):
        parts = [line.split() for line in lines]
        if all(len(part) == columns for part in parts):
            return parts
        return [list(lines[start : start + columns]) for start in range(0, len(lines), columns)]
    return [line.split("\t") for line in lines]


def _shown(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case "":
            return "(empty)"
        case _:
            return str(value)


def _same(expected: str, found: str) -> bool:
    if expected == found or {expected, found} in ({"true", "1"}, {"false", "0"}):
        return True
    try:
        return math.isclose(float(expected), float(found), rel_tol=1e-6)
    except ValueError:
        return expected.rstrip("0").rstrip(":.") == found.rstrip("0").rstrip(":.")


def reason_of(sql: str) -> str:
    """Return which words of the engine's own dialect the statement has."""
    flat = " ".join(sql.split())
    return next((reason for reason, words in _REASONS.items() if re.search(words, flat, re.IGNORECASE)), "other")


class _Run:
    """One file on a lakehouse of its own."""

    def __init__(self, name: str, folder: Path, dialect: str) -> None:
        self._name, self._dialect = name, dialect
        self._lake = mangrove.create(folder)
        self._lake.create_namespace("default")
        self._sessions: dict[str, SqlSession] = {}
        self._was_refused = False

    def outcome(self, record: Record) -> Outcome:
        """Run a record, and judge it."""
        end, reason, detail = self._judged(record)
        return Outcome(self._name, record.line, end, reason, record.sql, detail)

    def _judged(self, record: Record) -> tuple[str, str, str]:
        is_engine = _ENGINE_ITSELF.search(record.sql) is not None
        is_hash = record.expected is not None and any(map(_VALUES_LINE.match, record.expected))
        if is_engine or is_hash or record.is_for_others:
            # What such a statement makes, later ones may need.
            self._was_refused = self._was_refused or record.sql.lower().startswith(("create", "set", "attach", "copy"))
            return "skipped", "the engine itself" if is_engine else "not for us", ""
        session = self._sessions.setdefault(record.connection, SqlSession(self._lake))
        try:
            result = session.run(translated(record.sql, self._dialect))
            rows = result.rows() if result.counts is None else [(_touched(result.counts),)]
        except (MangroveError, *spark_errors) as error:
            if record.fails:
                return "same", "", str(error).splitlines()[0]
            after, self._was_refused = self._was_refused, True
            reason = reason_of(record.sql)
            if after and reason == "other":
                return "follows", "", str(error)
            return "refused", reason, str(error)
        if record.fails or (record.expected is not None and not same_rows(record, rows)):
            detail = f"taken: {rows[:20]}" if record.fails else f"expected {record.expected[:20]}, found {rows[:20]}"  # type: ignore[index]
            return ("follows" if self._was_refused else "different"), reason_of(record.sql), detail
        return "same", "", ""


def _touched(counts: Any) -> int:
    return (counts.inserted or 0) + (counts.updated or 0) + (counts.deleted or 0)


def _files(places: list[str]) -> Iterator[Path]:
    for place in map(Path, places):
        yield from (
            sorted(one for one in place.rglob("*") if one.suffix in (".test", ".slt")) if place.is_dir() else [place]
        )


def main() -> None:
    """Run all files, write each outcome, and print how many ended how."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialect", default="duckdb", help="what sqlglot calls the dialect of the files")
    parser.add_argument("--report", help="a file for one line of JSON a record")
    parser.add_argument("--records-max", type=int, default=80, help="how many records of one file are run")
    parser.add_argument("places", nargs="+", help="folders with .test or .slt files, or such files")
    asked = parser.parse_args()
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    local_session({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"})
    ends: Counter[tuple[str, str]] = Counter()
    files = 0
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(Path(asked.report).open("a", encoding="utf-8")) if asked.report else None
        for path in _files(asked.places):
            files += 1
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                run = _Run(path.name, Path(folder) / "lake", asked.dialect)
                for record in list(records_of(path.read_text("utf-8")))[: asked.records_max]:
                    outcome = run.outcome(record)
                    ends[outcome.end, outcome.reason] += 1
                    if report is not None:
                        report.write(json.dumps(asdict(outcome)) + "\n")
                        report.flush()
    sys.stdout.write(f"{files} files, {sum(ends.values())} records\n")
    for (end, reason), number in sorted(ends.items()):
        sys.stdout.write(f"{number:6}  {end:10} {reason}\n")


if __name__ == "__main__":
    main()
