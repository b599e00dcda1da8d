"""Any history of commits by an Iceberg client and by ourselves means the same rows to both, and to a dictionary."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.iceberg.iceberg_client import Client, Written
from tests.support.table_properties import DATA_FILES_ONLY

import mangrove
from mangrove.effects import build_effects
from mangrove.lakehouse.opening import open_on_store
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store

Model = dict[int, str]
Step = Callable[["History"], None]
PARTS = ("p", "q")


class History:
    """A table in the hands of a client and of ourselves, and what a dictionary says of it."""

    def __init__(self, data: st.DataObject, layout: str, **options: Any) -> None:
        lake = mangrove.create(f"memory://histories-{uuid.uuid4()}", layout=layout)
        lake.create_namespace("s")
        lake.create_table("s.t", "id bigint not null, part string not null, name string", **options)
        self.client = Client(lake, "s.t")
        self.table = lake.table("s.t")
        self.is_divided = "partition_by" in options
        self.writes_vectors = bool(options.get("properties"))
        self.data = data
        self.model: Model = {}
        self.count = 0

    def fresh(self) -> Model:
        ids = range(self.count, self.count + self.data.draw(st.integers(1, 3), label="new rows"))
        self.count = ids.stop
        return {one: f"new {one}" for one in ids}

    def some(self) -> list[int]:
        return sorted(self.data.draw(st.sets(st.sampled_from(sorted(self.model))))) if self.model else []

    def rows(self, model: Model) -> list[dict[str, Any]]:
        return [{"id": one, "part": PARTS[one % 2], "name": name} for one, name in model.items()]

    def files(self, model: Model) -> list[Written]:
        """Write rows as a client does: a file for each partition."""
        parts = PARTS if self.is_divided else (None,)
        divided = [(part, [row for row in self.rows(model) if part in (None, row["part"])]) for part in parts]
        return [self.client.rows(rows, [part] if part else []) for part, rows in divided if rows]

    def shown(self) -> list[tuple[str, dict[int, dict[str, Any]]]]:
        """Return what is shown in an order that does not depend on the names of files, which are chance."""
        return sorted(self.client.contents().items(), key=lambda one: sorted(row["id"] for row in one[1].values()))

    def check(self) -> None:
        ours = {row["id"]: row["name"] for row in self.table.to_arrow().to_pylist()}
        shown = [row for rows in self.client.contents().values() for row in rows.values()]
        assert ours == self.model == {row["id"]: row["name"] for row in shown}
        assert self.table.to_arrow().num_rows == len(shown) == len(self.model)


def client_appends(history: History) -> None:
    new = history.fresh()
    history.client.commit(history.files(new))
    history.model |= new


def client_takes_files_away(history: History) -> None:
    """Take files away, with those that hide their rows, and write some of the rows again."""
    found = history.shown()
    chosen = history.data.draw(st.sets(st.integers(0, len(found) - 1))) if found else set()
    gone = [found[place][0] for place in chosen]
    rows = sorted(row["id"] for place in chosen for row in found[place][1].values())
    stay = {one: f"again {one}" for one in rows if history.data.draw(st.booleans(), label="stays")}
    delete_files = [address for one in gone for address in history.client.deletes_of(one)]
    history.client.commit(history.files(stay), removed=[*gone, *delete_files])
    history.model = {one: name for one, name in history.model.items() if one not in rows} | stay


def client_deletes_by_position(history: History) -> None:
    new, commit = history.fresh(), []
    for address, rows in history.shown():
        deleted_rows = [number for number in rows if history.data.draw(st.booleans(), label="hidden")]
        if deleted_rows:
            part = [rows[deleted_rows[0]]["part"]] if history.is_divided else []
            if history.writes_vectors:
                commit += history.client.vectors({address: deleted_rows}, part)
            else:
                commit.append(history.client.numbers({address: deleted_rows}, part))
            for number in deleted_rows:
                del history.model[rows[number]["id"]]
    history.client.commit([*commit, *history.files(new)])
    history.model |= new


def client_changes_by_values(history: History) -> None:
    changed = {one: f"by value {one}" for one in history.some()}
    dropped = set(history.some()) - changed.keys()
    gone = [{"id": one} for one in [*changed, *dropped]]
    parts = PARTS if history.is_divided else (None,)
    keys = [
        history.client.keys(rows, ["id"], [part] if part else [])
        for part in parts
        if (rows := [row for row in gone if part in (None, PARTS[row["id"] % 2])])
    ]
    history.client.commit([*keys, *history.files(changed)])
    history.model = {one: name for one, name in history.model.items() if one not in dropped} | changed


def we_append(history: History) -> None:
    new = history.fresh()
    history.table.append(history.rows(new))
    history.model |= new


def we_upsert(history: History) -> None:
    new = history.fresh() | {one: f"upserted {one}" for one in history.some()}
    history.table.upsert(history.rows(new))
    history.model |= new


def we_delete(history: History) -> None:
    for one in history.some():
        history.table.delete(f"id = {one}")
        del history.model[one]


def we_compact(history: History) -> None:
    history.table.compact()


STEPS: list[Step] = [
    client_appends,
    client_takes_files_away,
    client_deletes_by_position,
    client_changes_by_values,
    we_append,
    we_upsert,
    we_delete,
    we_compact,
]


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@settings(max_examples=12)
@given(st.data())
def test_all_agree_on_the_rows_after_any_commits(layout: str, data: st.DataObject) -> None:
    options: dict[str, Any] = {"keys": ["id", "part"]}
    if data.draw(st.booleans(), label="divided"):
        options["partition_by"] = ["part"]
    if data.draw(st.booleans(), label="format version 3"):
        options["properties"] = {"format-version": "3"}
    history = History(data, layout, **options)
    for _ in range(data.draw(st.integers(1, 6))):
        data.draw(st.sampled_from(STEPS))(history)
        history.check()
    assert history.client.lake.maintenance.check().problems == ()


@pytest.mark.parametrize("properties", [{}, DATA_FILES_ONLY])
def test_the_requests_of_a_commit_are_independent_of_the_file_count(tmp_path: Any, properties: dict[str, str]) -> None:
    costs = []
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null", properties=properties)
    for files in (3, 30):
        for number in range(files):
            table.append([{"id": number}])
        store = CountingStore(open_store(lake.uri))
        client = Client(open_on_store(build_effects(store)), "s.t")
        request = client.request([client.rows([{"id": 1}])])
        before = store.requests
        client.send(request)
        requested = store.requests
        costs.append(requested.puts + requested.reads + requested.sizes - before.puts - before.reads - before.sizes)
    # Finding the newest version takes up to two more, by how far it is from the hint, and so does each further
    # manifest: the digest of a file says whether a manifest ends there.
    assert costs[1] <= costs[0] + 6
