"""Random histories of tables of every kind, each state of which PyIceberg and polars read as it is."""

import datetime
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

import mangrove
from mangrove.effects import wait_for_pending
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import TableSnapshot

pytestmark = pytest.mark.slow

_DAYS = [datetime.date(2026, 1, 1) + datetime.timedelta(days=31 * number) for number in range(3)]
_KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "by position": {"properties": {"write.delete-mode": "position"}},
    "keys": {"keys": ["id"]},
    "keys by position": {"keys": ["id"], "properties": {"write.delete-mode": "position"}},
    "partitioned": {"partition_by": ["months(day)", "bucket(2, id)"]},
    "one log": {"keys": ["id"], "partition_by": ["day"]},
    "logs": {"keys": ["id", "day"], "partition_by": ["day"]},
    "version 3": {"properties": {"write.delete-mode": "position", "format-version": "3"}},
    "version 3 logs": {"keys": ["id", "day"], "partition_by": ["day"], "properties": {"format-version": "3"}},
}


@dataclass
class _Table:
    """A table while it changes, and the names of the columns that came and went."""

    lake: Lakehouse
    table: Table
    names: list[str] = field(default_factory=lambda: ["what"])
    versions: list[int] = field(default_factory=list)

    def rows(self, ids: list[int], what: str) -> list[dict[str, Any]]:
        return [{"id": one, "day": _DAYS[one % 3], **dict.fromkeys(self.names, what)} for one in ids]


def _append(one: _Table, ids: list[int]) -> None:
    one.table.append(one.rows(ids, "appended"))


def _upsert(one: _Table, ids: list[int]) -> None:
    if one.table.keys:
        one.table.upsert(one.rows(ids, "upserted"))


def _delete(one: _Table, ids: list[int]) -> None:
    one.table.delete(f"id in ({', '.join(map(str, ids))})")


def _update(one: _Table, ids: list[int]) -> None:
    if one.names:
        one.table.update({one.names[-1]: "updated"}, where=f"id > {ids[0]}")


def _overwrite(one: _Table, ids: list[int]) -> None:
    one.table.overwrite(one.rows(ids, "overwritten"))


def _compact(one: _Table, ids: list[int]) -> None:
    one.table.compact()


def _add_column(one: _Table, ids: list[int]) -> None:
    # A name that was there before is that of another column now.
    name = next(name for name in ("what", "more", "again", "last") if name not in one.names)
    if len(one.names) < 3:
        one.table.update_schema().add_column(name, "string").commit()
        one.names.append(name)


def _rename_column(one: _Table, ids: list[int]) -> None:
    if one.names:
        name = next(name for name in ("more", "what", "again", "last") if name not in one.names)
        one.table.update_schema().rename_column(one.names[0], name).commit()
        one.names[0] = name


def _drop_column(one: _Table, ids: list[int]) -> None:
    if one.names:
        one.table.update_schema().drop_column(one.names.pop(0)).commit()


_STEPS: list[Callable[[_Table, list[int]], None]] = [
    _append, _append, _upsert, _upsert, _delete, _delete, _update, _overwrite, _compact, _add_column, _rename_column,
    _drop_column,
]  # fmt: skip


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def _check_published(table: TableSnapshot) -> None:
    address = table.iceberg()
    own = _in_order(table.to_arrow().to_pylist())
    found = StaticTable.from_metadata(address)
    assert _in_order(found.scan().to_arrow().to_pylist()) == own
    for where in ("id = 3", "id >= 6", "day = '2026-01-01'"):
        meant = _in_order(table.to_arrow(where=where).to_pylist())
        assert _in_order(found.scan(row_filter=where).to_arrow().to_pylist()) == meant
    assert _in_order(pl.scan_iceberg(address, reader_override="native").collect().to_dicts()) == own


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@settings(max_examples=settings().max_examples // 5, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(sorted(_KINDS)),
    steps=st.lists(
        st.tuples(st.sampled_from(_STEPS), st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)),
        min_size=1,
        max_size=8,
    ),
)
@pytest.mark.filterwarnings("ignore:Iceberg scan planning")  # polars would plan with a package of its own
def test_pyiceberg_reads_every_state_of_a_history(
    layout: str, kind: str, steps: list[tuple[Callable[[_Table, list[int]], None], list[int]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = mangrove.create(folder, layout=layout)
        lake.create_namespace("s")
        table = lake.create_table("s.t", "id bigint not null, day date not null, what string", **_KINDS[kind])
        one = _Table(lake, table)
        for step, ids in steps:
            step(one, ids)
            _check_published(table)
            one.versions.append(lake.version)
        _check_published(lake.at(one.versions[len(steps) // 2]).table("s.t"))
        assert list(lake.maintenance.check()) == []
        wait_for_pending(lake.effects, 60.0)
