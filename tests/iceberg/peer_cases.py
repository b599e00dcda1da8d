"""Tables of every kind that other engines are asked to read, each with its way of coming about."""

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table

__all__ = ["CASES", "CASES_WITHOUT_TIMES", "PLAIN_COLUMNS", "PLAIN_ROWS"]

_Building = Callable[[Lakehouse], Table]

UTC = datetime.UTC
PLAIN_COLUMNS: Final = {
    "a": "boolean", "b": "smallint", "c": "int", "d": "bigint", "e": "decimal(9, 2)", "f": "float", "g": "double",
    "h": "char(3)", "i": "varchar(7)", "j": "string", "k": "date", "l": "time", "m": "timetz", "n": "timestamp_ntz",
    "o": "timestamp", "p": "fixed(5)", "q": "binary", "r": "decimal(38, 10)",
}  # fmt: skip


def _row(*values: Any) -> dict[str, Any]:
    """Return a row of these values, after a boolean that tells whether the first of them is positive."""
    return dict(zip(PLAIN_COLUMNS, (values[0] > 0, *values), strict=True))


PLAIN_ROWS: Final = [
    _row(
        1, 2, 3, decimal.Decimal("4.50"), 1.5, 2.5, "ab", "varchar", "text", datetime.date(2026, 2, 3),
        datetime.time(4, 5, 6, 7), datetime.time(8, 9, 10, 11, UTC), datetime.datetime(2026, 2, 3, 4, 5, 6, 7),
        datetime.datetime(2026, 2, 3, 4, 5, 6, 7, UTC), b"fives", b"\0\xff", decimal.Decimal("12345678901234567890.5"),
    ),
    _row(
        -(2**15), -(2**31), -(2**63), decimal.Decimal("-9999999.99"), -math.inf, -0.0, "", "", "",
        datetime.date(1, 1, 2), datetime.time(0), datetime.time(0, tzinfo=UTC), datetime.datetime(1, 1, 2),
        datetime.datetime(1, 1, 2, tzinfo=UTC), bytes(5), b"", decimal.Decimal("-1e-10"),
    ),
    _row(
        2**15 - 1, 2**31 - 1, 2**63 - 1, decimal.Decimal("9999999.99"), math.nan, math.nan, "\U0010ffff" * 3,
        "\ud7ff\ue000\U00010000", "ä" * 40, datetime.date(9999, 12, 30), datetime.time(23, 59, 59, 999_999),
        datetime.time(23, 59, 59, 999_999, UTC), datetime.datetime(9999, 12, 30, 23, 59, 59, 999_999),
        datetime.datetime(9999, 12, 30, 23, 59, 59, 999_999, UTC), b"\xff" * 5, b"\xff" * 40,
        decimal.Decimal(10**28 - 1),
    ),
    _row(
        -1, -7, -11, decimal.Decimal("-0.01"), 0.0, 0.0, "xyz", "a b", "ein Text", datetime.date(1969, 12, 31),
        datetime.time(1), datetime.time(2, tzinfo=UTC), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), b"abcde", b"abc", decimal.Decimal("-0.5"),
    ),
    dict.fromkeys(PLAIN_COLUMNS),
]  # fmt: skip


def _numbered(rows: list[dict[str, Any]], first: int = 0) -> list[dict[str, Any]]:
    return [{"id": first + number, **row} for number, row in enumerate(rows)]


def _schema(columns: Sequence[str]) -> str:
    return ", ".join(["id bigint not null", *(f"{name} {PLAIN_COLUMNS[name]}" for name in columns)])


def _rows(columns: Sequence[str]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in columns} for row in PLAIN_ROWS]


def _of_every_type(columns: Sequence[str]) -> _Building:
    def build(lake: Lakehouse) -> Table:
        table = lake.create_table("s.every_type", _schema(columns))
        table.append(_numbered(_rows(columns)))
        for number, row in enumerate(_rows(columns)):
            table.append(_numbered([row], 10 + number))
        return table

    return build


def _partitioned(columns: Sequence[str], name: str, term: str) -> _Building:
    def build(lake: Lakehouse) -> Table:
        table = lake.create_table(f"s.{name}", _schema(columns), partition_by=[term])
        # The smallest numbers cannot be rounded down, and such rows are refused.
        rows = [row for row in _rows(columns) if "truncate" not in term or row["d"] != -(2**63)]
        table.append(_numbered(rows))
        table.append(_numbered(rows, 10))
        table.delete("id in (1, 12, 13)")
        return table

    return build


def _nested(lake: Lakehouse) -> Table:
    inside = "struct<x: int, t: struct<y: string, z: double>>"
    table = lake.create_table(
        "s.nested", f"id int, s {inside}, l array<struct<u: date>>, m map<string, array<int>>, n array<decimal(5, 1)>"
    )
    day = datetime.date(2026, 1, 1)
    one = decimal.Decimal("1.5")
    table.append(
        [
            {"id": 1, "s": {"x": 1, "t": {"y": "a", "z": 1.5}}, "l": [{"u": day}], "m": {"k": [1]}, "n": [one]},
            {"id": 2, "s": {"x": None, "t": None}, "l": [], "m": {}, "n": []},
            {"id": 3, "s": None, "l": [], "m": None, "n": None},
            {
                "id": 4,
                "s": {"x": 4, "t": {"y": None, "z": None}},
                "l": [None, {"u": None}],
                "m": {"n": [None]},
                "n": [None],
            },
        ]
    )
    return table


def _null_lists_of_structs(lake: Lakehouse) -> Table:
    table = lake.create_table("s.null_lists", "id int, l array<struct<u: date>>")
    table.append([{"id": 1, "l": None}, {"id": 2, "l": []}])
    return table


def _evolved(lake: Lakehouse) -> Table:
    table = lake.create_table(
        "s.evolved", "id int, a smallint, b float, c decimal(5, 2), d varchar(3), s struct<x: int, y: int>, gone string"
    )
    first = {"a": -5, "b": 1.5, "c": decimal.Decimal("1.25"), "d": "abc", "s": {"x": 1, "y": 2}, "gone": "old"}
    table.append([{"id": 1, **first}])
    for column, wider in {"a": "int", "b": "double", "c": "decimal(12, 2)", "d": "string", "s.x": "bigint"}.items():
        table.update_schema().widen(column, wider).commit()
    table.append([{"id": 2, **first, "a": 100_000, "b": 0.1, "d": "long text", "s": {"x": 2**40, "y": 3}}])
    table.update_schema().widen("a", "bigint").commit()
    table.update_schema().drop_column("gone").commit()
    table.update_schema().drop_column("s.y").commit()
    table.update_schema().add_column("gone", "int").commit()
    table.update_schema().add_column("s.new", "string").commit()
    table.update_schema().rename_column("d", "e").commit()
    table.update_schema().rename_column("b", "d").commit()
    table.append(
        [{"id": 3, "a": 2**40, "d": 2.5, "c": decimal.Decimal("1e9"), "e": "x", "s": {"x": 1, "new": "n"}, "gone": 7}]
    )
    return table


def _upserted(name: str, **options: Any) -> _Building:
    def build(lake: Lakehouse) -> Table:
        table = lake.create_table(f"s.{name}", "id bigint not null, day date not null, what string", **options)
        days = [datetime.date(1969, 12, 30) + datetime.timedelta(days=day) for day in range(4)]
        rows = [{"id": number, "day": days[number % 4], "what": "old"} for number in range(40)]
        table.append(rows[:30])
        table.upsert([{**row, "what": "new"} for row in rows[20:]])
        table.delete("id in (3, 21, 39)")
        table.upsert([{**rows[21], "what": "again"}])
        table.update({"what": "end"}, where="id < 5")
        return table

    return build


def _moved_partitions(lake: Lakehouse) -> Table:
    """Return a table whose columns of partitions were renamed and widened after rows were divided by them."""
    table = lake.create_table(
        "s.moved", "id int not null, n int, t varchar(3), what string", partition_by=["truncate(10, n)", "t"]
    )
    rows = [{"id": number, "n": number * 7 - 20, "t": "ab" if number % 2 else None, "what": "x"} for number in range(8)]
    table.append(rows)
    table.update_schema().widen("n", "bigint").commit()
    table.update_schema().widen("t", "string").commit()
    table.update_schema().rename_column("n", "what_is_n").commit()
    table.append([{"id": 9, "what_is_n": 2**40, "t": "a long text", "what": "y"}])
    return table


def _by_position(lake: Lakehouse) -> Table:
    table = lake.create_table("s.by_position", "id int, what string", properties={"write.delete-mode": "position"})
    table.append([{"id": number, "what": "old"} for number in range(20)])
    table.delete("id between 3 and 7")
    table.append([{"id": 4, "what": "new"}])
    table.delete("id = 4 or id = 19")
    return table


def _overwritten(lake: Lakehouse) -> Table:
    table = lake.create_table("s.overwritten", "id int, part int", partition_by=["part"], sort_by=["id desc"])
    table.append([{"id": number, "part": number % 3} for number in range(9)])
    table.overwrite_partitions([{"id": 100, "part": 1}])
    table.overwrite([{"id": 200, "part": 2}], where="part = 2")
    return table


def _emptied(lake: Lakehouse) -> Table:
    table = lake.create_table("s.emptied", "id int")
    table.append([{"id": 1}])
    table.delete("true")
    return table


def _odd_names(lake: Lakehouse) -> Table:
    table = lake.create_table(
        "s.`odd,%20and-ä`", "`a b` int, `x.y` string, `ü%20` string, `id_bucket` int, id int",
        partition_by=["bucket(4, id)", "`ü%20`", "`a b`"],
    )  # fmt: skip
    table.append([{"a b": 1, "x.y": "p", "ü%20": "a/b %2F=ä", "id_bucket": 7, "id": number} for number in range(6)])
    return table


def _by_every_transform(columns: Sequence[str]) -> dict[str, _Building]:
    moments = {"k": ["years", "months", "days"], "n": ["years", "months", "days", "hours"]}
    moments["o"] = moments["n"]
    terms = [*columns, *(f"bucket(3, {name})" for name in columns if name not in "afg")]
    terms += [f"{word}({name})" for name, words in moments.items() for word in words]
    terms += [f"truncate({width}, {name})" for name in "dehijqr" for width in (2, 1000)]
    names = {term: "by_" + "".join(letter if letter.isalnum() else "_" for letter in term) for term in terms}
    return {term: _partitioned(columns, name, term) for term, name in names.items()}


def _cases(columns: Sequence[str]) -> dict[str, _Building]:
    buckets = {"keys": ["id"], "partition_by": ["bucket(3, id)", "months(day)"]}
    return {
        "every type": _of_every_type(columns),
        "nested": _nested,
        "null lists of structs": _null_lists_of_structs,
        "evolved": _evolved,
        "upserted": _upserted("upserted", keys=["id"]),
        "upserted in partitions": _upserted("upserted_days", keys=["id", "day"], partition_by=["day"]),
        "upserted across partitions": _upserted("upserted_buckets", **buckets),
        "renamed and widened partitions": _moved_partitions,
        "deleted by position": _by_position,
        "overwritten": _overwritten,
        "emptied": _emptied,
        "odd names": _odd_names,
        **_by_every_transform(columns),
    }


CASES: Final = _cases(list(PLAIN_COLUMNS))
CASES_WITHOUT_TIMES: Final = _cases([name for name, text in PLAIN_COLUMNS.items() if text not in ("time", "timetz")])
"""The same for Spark, which knows no time of day of Iceberg's."""
