"""The table of who meets whom says what happens, cell by cell."""

import itertools
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

import mangrove
from mangrove import Lakehouse, expr
from mangrove.effects import wait_for_pending
from mangrove.lakehouse.transaction import Transaction
from mangrove.storage.memory import MemoryStore, open_memory_store

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "concurrency.md"


def merged(txn: Transaction, key: int) -> object:
    """Add to one row if it is there, and insert it if it is not."""
    merge = txn.table("s.t").merge([{"k": key, "v": 7, "w": 0}], on="t.k = s.k")
    return merge.when_matched_update({"v": expr("t.v + s.v")}).when_not_matched_insert().execute()


def merge_whole_row(txn: Transaction, key: int) -> object:
    """Replace one row by its key, or insert it."""
    merge = txn.table("s.t").merge([{"k": key, "v": 7, "w": 0}], on="t.k = s.k")
    return merge.when_matched_update().when_not_matched_insert().execute()


NUMBERS = itertools.count()
Statement = Callable[[Transaction, int], object]
"""A statement on the row with a key; statements on the whole table ignore the key."""

STATEMENTS: dict[str, dict[str, Statement]] = {
    "rows by key": {
        "append": lambda txn, key: txn.table("s.t").append([{"k": key, "v": key, "w": 1}]),
        "upsert": lambda txn, key: txn.table("s.t").upsert([{"k": key, "v": 20, "w": 0}]),
        "delete": lambda txn, key: txn.table("s.t").delete_keys([{"k": key}]),
        "merge of whole rows": merge_whole_row,
    },
    "by predicate": {
        "delete": lambda txn, key: txn.table("s.t").delete(f"v = {key}"),
        "overwrite": lambda txn, key: txn.table("s.t").overwrite([{"k": key, "v": key, "w": 5}], where=f"v = {key}"),
        "update": lambda txn, key: txn.table("s.t").update({"v": expr("v + 10")}, where=f"v = {key}"),
        "merge": merged,
        "upsert of some columns": lambda txn, key: txn.table("s.t").upsert([{"k": key, "v": 2}]),
    },
    "overwrite": {"overwrite": lambda txn, _: txn.table("s.t").overwrite([{"k": 9, "v": 9, "w": 0}])},
    "compact": {"compact": lambda txn, _: txn.table("s.t").compact()},
    "rename": {
        "rename": lambda txn, _: txn.rename_table("s.t", f"s.t{txn.id[:8]}"),
        "properties": lambda txn, _: txn.alter_table("s.t", {"writer": txn.id}),
    },
    "columns": {
        "add": lambda txn, _: txn.table("s.t").update_schema().add_column(f"c{txn.id[:8]}", "string").commit(),
        "rename": lambda txn, _: txn.table("s.t").update_schema().rename_column("w", f"w{txn.id[:8]}").commit(),
        "drop column": lambda txn, _: txn.table("s.t").update_schema().drop_column("w").commit(),
        "widen column": lambda txn, _: txn.table("s.t").update_schema().widen("w", "bigint").commit(),
    },
    "drop": {"drop": lambda txn, _: txn.drop_table("s.t")},
}

WHOLE_TABLE = {"overwrite", "compact", "rename", "columns", "drop"}
"""The groups whose statements ignore the key."""

AGREEING = {"drop column", "widen column"}
"""Two that do just this write exactly the same, which is no conflict."""


MEANING = {"yes": (True, True), "no": (False, False), "other rows": (False, True)}
"""Whether the second may commit if both change the same row, and if they change different rows."""


def cells_of_the_page() -> dict[tuple[str, str], tuple[bool, bool]]:
    """Return what the page says about each pair (first, second)."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {
        (first, second): MEANING[said]
        for second, cells in rows
        for first, said in zip(STATEMENTS, cells.split(" | "), strict=True)
    }


@cache
def build_store(layout: str) -> MemoryStore:
    """Return the store of a lakehouse with a table of three files."""
    uri = f"memory://meeting-{layout}"
    lake = mangrove.create(uri, layout=layout)
    lake.create_namespace("s")
    table = lake.create_table("s.t", schema="k bigint not null, v bigint, w int", keys=["k"])
    for start in (0, 2, 4):
        table.append([{"k": start + more, "v": start + more, "w": 0} for more in range(2)])
    wait_for_pending(lake.effects, 60.0)
    return open_memory_store(lake.uri)


def open_copy(layout: str) -> Lakehouse:
    """Return a lakehouse of its own with the same content."""
    store = open_memory_store(f"memory://meeting-{next(NUMBERS)}/")
    store._objects.update(build_store(layout)._objects)
    return mangrove.open(store.uri)


def may_follow(layout: str, first: Statement, second: Statement, key: int = 1) -> bool:
    """Return whether `second` commits on a row after `first` on row 1, where both began on one version."""
    lake = open_copy(layout)
    one, two = lake.transaction(), lake.transaction()
    first(one, 1)
    second(two, key)
    one.commit()
    try:
        two.commit()
    except mangrove.ConflictError:
        return False
    return True


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@pytest.mark.parametrize("first", STATEMENTS)
def test_each_cell_states_whether_the_second_transaction_commits(layout: str, first: str) -> None:
    said = cells_of_the_page()
    for second in STATEMENTS:
        pairs = itertools.product(STATEMENTS[first].items(), STATEMENTS[second].items())
        found = {}
        for (one, before), (two, after) in pairs:
            if one != two or one not in AGREEING:
                same_row = may_follow(layout, before, after)
                other_row = same_row if second in WHOLE_TABLE else may_follow(layout, before, after, key=4)
                found[f"{one} then {two}"] = (same_row, other_row)
        assert set(found.values()) == {said[first, second]}, f"{first} then {second}: {found}"


def test_the_page_has_a_cell_for_every_pair() -> None:
    assert set(cells_of_the_page()) == set(itertools.product(STATEMENTS, STATEMENTS))


BLIND: dict[str, Statement] = {**STATEMENTS["rows by key"], **STATEMENTS["overwrite"]}
"""Those that look at nothing that is there."""

FIRST_INTO_AN_EMPTY_TABLE: dict[str, tuple[Statement, ...]] = {
    "append": (STATEMENTS["rows by key"]["append"],),
    "upsert and compact": (STATEMENTS["rows by key"]["upsert"], STATEMENTS["compact"]["compact"]),
    "overwrite": (STATEMENTS["overwrite"]["overwrite"],),
    "upsert and overwrite": (STATEMENTS["rows by key"]["upsert"], STATEMENTS["overwrite"]["overwrite"]),
    "append and delete all": (STATEMENTS["rows by key"]["append"], lambda txn, _: txn.table("s.t").delete("true")),
}
REWRITING = {"upsert and compact", "overwrite", "upsert and overwrite"}
AFTERWARDS = {"append": {1}, "upsert": {1}, "delete": set[int](), "merge of whole rows": {1}, "overwrite": {9}}
"""The keys that each adds, or to which it sets the table."""


def call(statement: Statement, txn: Transaction) -> object:
    return statement(txn, 50)


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@pytest.mark.parametrize("first", FIRST_INTO_AN_EMPTY_TABLE)
@pytest.mark.parametrize("second", BLIND)
def test_blind_writes_to_an_initially_empty_table_conflict_only_with_rewrites(
    layout: str, first: str, second: str
) -> None:
    lake = mangrove.create(f"memory://meeting-{next(NUMBERS)}", layout=layout)
    lake.create_namespace("s")
    table = lake.create_table("s.t", schema="k bigint not null, v bigint, w int", keys=["k"])
    waiting = lake.transaction()
    BLIND[second](waiting, 1)
    for statement in FIRST_INTO_AN_EMPTY_TABLE[first]:
        lake.run(partial(call, statement))
    before = set(table.to_arrow()["k"].to_pylist())
    if second == "overwrite" and first in REWRITING:
        with pytest.raises(mangrove.ConflictError, match=r"rows of table s\.t"):
            waiting.commit()
        assert set(table.to_arrow()["k"].to_pylist()) == before
        return
    waiting.commit()
    kept = set[int]() if second == "overwrite" else before
    assert set(table.to_arrow()["k"].to_pylist()) == kept | AFTERWARDS[second]
    assert not lake.maintenance.check()


@pytest.mark.parametrize("name", sorted(AGREEING))
def test_concurrent_equal_column_changes_do_not_conflict(name: str) -> None:
    assert may_follow("tree", STATEMENTS["columns"][name], STATEMENTS["columns"][name])
