"""Reading the files of logic tests: statements and queries, with what an engine answers to each.

Most files are in the format that SQLite made known as sqllogictest, with the words
that DuckDB, CockroachDB, DataFusion and RisingWave added. Spark keeps answers beside
statements in files of its own form, which end in `.sql.out`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["LOAD", "LOOPS_MAX", "RESTART", "Record", "records_in"]

LOAD: Final = "load"
"""In the place of a statement: from here on, everything happens in a new database."""
RESTART: Final = "restart"
"""Likewise: all connections are made anew."""
LOOPS_MAX: Final = 20
"""A loop of more rounds is about volume, not about meaning."""
_LOOPS: Final = ("loop", "foreach", "concurrentloop", "concurrentforeach")
_SPARK_PART: Final = re.compile(r"^-- !query(?: (\w+))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Record:
    """A statement or query of a file, with what is expected of it."""

    line: int
    sql: str
    fails: bool = False
    message: str = ""
    """What the engine says where it refuses."""
    expected: tuple[str, ...] | None = None
    """The lines of the answer; None where only success counts."""
    columns: int = 0
    sort: str = "nosort"
    connection: str = ""
    is_for_others: bool = False


def records_in(path: Path) -> list[Record]:
    """Return the records of a file in order, loops written out."""
    text = path.read_text("utf-8")
    return list(_spark_records(text) if path.name.endswith(".sql.out") else _logic_records(text))


def _spark_records(text: str) -> Iterator[Record]:
    """Yield the statements of a file in which Spark keeps what it answered."""
    found = list(_SPARK_PART.finditer(text))
    bodies = [
        text[one.end() : other.start()].strip("\n")
        for one, other in zip(found, [*found[1:], re.search(r"\Z", text)], strict=True)
        if other is not None
    ]
    parts = [(one[1] or "sql", text.count("\n", 0, one.start()) + 1) for one in found]
    for place, (kind, line) in enumerate(parts):
        if kind != "sql" or [name for name, _ in parts[place + 1 : place + 3]] != ["schema", "output"]:
            continue
        sql, schema, output = bodies[place : place + 3]
        # An answer that begins with a brace and has no columns is the error, as JSON.
        if schema == "struct<>" and output.startswith(("{", "org.apache.spark", "java.lang")):
            yield Record(line, sql, fails=True, message=output)
        elif schema == "struct<>":
            yield Record(line, sql)
        else:
            yield Record(line, sql, expected=tuple(output.split("\n")) if output else (), columns=1)


def _logic_records(text: str) -> Iterator[Record]:
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
        words = lines[0].split() if lines else [""]
        if words[0] == "halt" or words[:2] == ["mode", "skip"]:
            return
        if words[0] in _LOOPS:
            inner, place = _loop(blocks, place)
            rounds = _rounds(words)
            for value in rounds if len(rounds) <= LOOPS_MAX else ():
                yield from _records(inner, variables | {words[1]: value})
            continue
        record = _record(number, lines, variables) if lines else None
        if record is not None and record.sql:
            yield record
        place += 1


def _loop(blocks: list[tuple[int, list[str]]], place: int) -> tuple[list[tuple[int, list[str]]], int]:
    """Return what stands inside the loop that begins at a place, and the place behind it."""
    first_number, first_block = blocks[place]
    rest = [line for line in first_block if not line.startswith("#")][1:]
    inner = [(first_number, rest)] if rest else []
    depth, place = 1, place + 1
    while place < len(blocks) and depth > 0:
        number, block = blocks[place]
        heads = [line.split()[0] for line in block]
        place += 1
        depth += sum(head in _LOOPS for head in heads) - heads.count("endloop")
        kept = [line for line in block if line.split()[0] != "endloop"] if depth == 0 else block
        if kept:
            inner.append((number, kept))
    return inner, place


def _rounds(words: list[str]) -> list[str]:
    if words[0].endswith("loop"):
        is_counted = len(words) > 3 and words[2].isdecimal() and words[3].isdecimal()
        return [str(value) for value in range(int(words[2]), int(words[3]))] if is_counted else []
    return words[2:]


def _record(number: int, lines: list[str], variables: dict[str, str]) -> Record | None:
    is_for_others = False
    while lines and lines[0].split()[0] in ("skipif", "onlyif"):
        is_for_others = is_for_others or lines[0].startswith("onlyif")
        lines = lines[1:]
    if lines and lines[0].split()[0] in (LOAD, RESTART):
        return Record(number, lines[0].split()[0])
    if not lines or lines[0].split()[0] not in ("statement", "query"):
        return None
    words = lines[0].split()
    body = [_filled(line, variables) for line in lines[1:]]
    sql, answer = body, []
    if "----" in body:
        cut = body.index("----")
        sql, answer = body[:cut], body[cut + 1 :]
    text = "\n".join(sql).strip().rstrip(";")
    kind = words[1] if len(words) > 1 else ""
    if kind == "error":
        message = " ".join([*words[2:], *answer])
        connection = next((word for word in words[2:3] if re.fullmatch(r"con\w*", word)), "")
        return Record(number, text, fails=True, message=message, connection=connection, is_for_others=is_for_others)
    if kind == "maybe":
        return None
    if words[0] == "statement":
        if kind == "count":
            return Record(number, text, expected=(words[2],), columns=1, is_for_others=is_for_others)
        connection = words[2] if len(words) == 3 else ""
        return Record(number, text, connection=connection, is_for_others=is_for_others)
    if any("colnames" in word for word in words[2:]):
        answer = answer[1:]
    return Record(
        number,
        text,
        expected=tuple(answer),
        columns=len(kind),
        sort=next((sort for sort in ("rowsort", "valuesort") if sort in words[2:]), "nosort"),
        connection=next((word for word in words[2:] if word.startswith("con")), ""),
        is_for_others=is_for_others,
    )


def _filled(line: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        line = line.replace(f"${{{name}}}", value).replace(f"{{{name}}}", value)
    return line
