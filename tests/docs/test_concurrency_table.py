"""The table of who meets whom says what happens, cell by cell."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import mangrove
from mangrove import expr
from mangrove.lakehouse.transaction import Transaction

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "concurrency.md"


def merged(txn: Transaction) -> object:
    """Change one row if it is there, and add it if it is not."""
    merge = txn.table("s.t").merge([{"k": 1, "v": 7, "w": 0}], on="t.k = s.k")
    return merge.when_matched_update().when_not_matched_insert().execute()


NUMBERS = itertools.count()
Statement = Callable[[Transaction], object]

STATEMENTS: dict[str, dict[str, Statement]] = {
    "rows by key": {
        "append": lambda txn: txn.table("s.t").append([{"k": 50, "v": 1, "w": 0}]),
        "upsert": lambda txn: txn.table("s.t").upsert([{"k": 1, "v": 2, "w": 0}]),
        "delete": lambda txn: txn.table("s.t").delete_keys([{"k": 2}]),
    },
    "by predicate": {
        "delete": lambda txn: txn.table("s.t").delete("v = 3"),
        "overwrite": lambda txn: txn.table("s.t").overwrite([{"k": 4, "v": 4, "w": 0}], where="v = 4"),
        "update": lambda txn: txn.table("s.t").update({"v": expr("v + 1")}, where="v = 2"),
        "merge": lambda txn: merged(txn),
        "upsert of some columns": lambda txn: txn.table("s.t").upsert([{"k": 1, "v": 2}]),
    },
    "overwrite": {"overwrite": lambda txn: txn.table("s.t").overwrite([{"k": 9, "v": 9, "w": 0}])},
    "compact": {"compact": lambda txn: txn.table("s.t").compact()},
    "rename": {
        "rename": lambda txn: txn.rename_table("s.t", f"s.t{txn.id[:8]}"),
        "properties": lambda txn: txn.alter_table("s.t", {"writer": txn.id}),
    },
    "columns": {
        "add": lambda txn: txn.table("s.t").update_schema().add_column(f"c{txn.id[:8]}", "string").commit(),
        "rename": lambda txn: txn.table("s.t").update_schema().rename_column("w", f"w{txn.id[:8]}").commit(),
        "drop column": lambda txn: txn.table("s.t").update_schema().drop_column("w").commit(),
        "widen column": lambda txn: txn.table("s.t").update_schema().widen("w", "bigint").commit(),
    },
    "drop": {"drop": lambda txn: txn.drop_table("s.t")},
}

AGREEING = {"drop column", "widen column"}
"""Two that do just this write exactly the same, which is no conflict."""


def cells_of_the_page() -> dict[tuple[str, str], bool]:
    """Return for each pair (first, second) whether the page says that the second may commit."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {
        (first, second): said == "yes"
        for second, cells in rows
        for first, said in zip(STATEMENTS, cells.split(" | "), strict=True)
    }


def may_follow(layout: str, first: Statement, second: Statement) -> bool:
    """Return whether `second` commits after `first`, where both began on one version."""
    lake = mangrove.create(f"memory://meeting-{next(NUMBERS)}", layout=layout)
    lake.create_namespace("s")
    table = lake.create_table("s.t", schema="k bigint not null, v bigint, w int", keys=["k"])
    for start in (0, 2, 4):
        table.append([{"k": start + more, "v": start + more, "w": 0} for more in range(2)])
    one, two = lake.transaction(), lake.transaction()
    first(one)
    second(two)
    one.commit()
    try:
        two.commit()
    except mangrove.ConflictError:
        return False
    return True


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@pytest.mark.parametrize("first", STATEMENTS)
def test_each_cell_says_whether_the_second_may_commit(layout: str, first: str) -> None:
    said = cells_of_the_page()
    for second in STATEMENTS:
        pairs = itertools.product(STATEMENTS[first].items(), STATEMENTS[second].items())
        found = {
            f"{one} then {two}": may_follow(layout, before, after)
            for (one, before), (two, after) in pairs
            if one != two or one not in AGREEING
        }
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
    "append and delete all": (STATEMENTS["rows by key"]["append"], lambda txn: txn.table("s.t").delete("true")),
}
REWRITING = {"upsert and compact", "overwrite", "upsert and overwrite"}
AFTERWARDS = {"append": {50}, "upsert": {1}, "delete": set[int](), "overwrite": {9}}
"""The keys that each adds, or to which it sets the table."""


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@pytest.mark.parametrize("first", FIRST_INTO_AN_EMPTY_TABLE)
@pytest.mark.parametrize("second", BLIND)
def test_a_table_that_was_empty_is_met_as_one_with_rows(layout: str, first: str, second: str) -> None:
    lake = mangrove.create(f"memory://meeting-{next(NUMBERS)}", layout=layout)
    lake.create_namespace("s")
    table = lake.create_table("s.t", schema="k bigint not null, v bigint, w int", keys=["k"])
    waiting = lake.transaction()
    BLIND[second](waiting)
    for statement in FIRST_INTO_AN_EMPTY_TABLE[first]:
        lake.run(statement)
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
def test_two_that_change_a_column_in_the_same_way_agree(name: str) -> None:
    assert may_follow("tree", STATEMENTS["columns"][name], STATEMENTS["columns"][name])
