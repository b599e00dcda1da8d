"""Whatever is written in whatever order, the rows that are read are those of a plain list."""

import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mangrove import expr
from mangrove.expressions.parse import parse_predicate
from mangrove.expressions.schema_text import parse_column, parse_schema
from mangrove.local.engine import LocalEngine
from mangrove.model.objects import TableVersion
from mangrove.model.partitioning import UNPARTITIONED, parse_partition_scheme, parse_sort_scheme
from mangrove.storage.memory import MemoryStore
from mangrove.tables.merge import MergeClause, MergeKind, MergePlan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import PlannedWrite, RowCounts, plan_partial_upsert
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.table_model import TableModel, apply_write, evaluate_predicate

SCHEMA = "id bigint not null, day date not null, name string, weight double, place struct<city: string, at: int>"
Row = dict[str, Any]


@dataclass(frozen=True)
class Design:
    keys: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    is_one_log: bool = True
    sort_by: tuple[str, ...] = ()
    delete_mode: str = "auto"


DESIGNS = [
    Design(("id",)),
    Design(("id", "day"), ("months(day)",)),
    Design(("id", "day"), ("months(day)", "bucket(2, id)"), is_one_log=False, sort_by=("name desc", "id")),
    Design(()),
    Design((), ("day", "truncate(1, name)"), is_one_log=False),
    Design((), ("day",), is_one_log=False, delete_mode="position"),
    Design(("id",), delete_mode="position"),
    Design(("id", "day"), ("months(day)",), delete_mode="position"),
]
UPDATES: list[tuple[dict[str, Any], Callable[[Row], Row]]] = [
    ({"name": expr("'u' || id")}, lambda row: {"name": f"u{row['id']}"}),
    (
        {"weight": expr("coalesce(weight, 0.5) * 2"), "place": None},
        lambda row: {"weight": _doubled(row), "place": None},
    ),
    ({"day": expr("case when id > 2 then date '2026-02-01' else day end")}, lambda row: {"day": _moved(row)}),
]
MERGE = MergePlan(
    "t.id = s.id",
    (
        MergeClause(MergeKind.MATCHED_DELETE, "s.weight is null"),
        MergeClause(MergeKind.MATCHED_UPDATE, None, {"name": expr("s.name"), "weight": expr("s.weight")}),
        MergeClause(MergeKind.INSERT),
    ),
)


def _doubled(row: Row) -> float:
    return float((0.5 if row["weight"] is None else row["weight"]) * 2)


def _moved(row: Row) -> datetime.date:
    return datetime.date(2026, 2, 1) if row["id"] > 2 else row["day"]


def _merged(_: Any, source: Any) -> Row | None:
    return None if source["weight"] is None else {"name": source["name"], "weight": source["weight"]}


IDS = st.integers(0, 5)
DAYS = st.sampled_from([datetime.date(2026, 1, 1), datetime.date(2026, 2, 1), datetime.date(1969, 12, 31)])
NAMES = st.none() | st.sampled_from(["", "a", "ab", "b"])
WEIGHTS = st.none() | st.sampled_from([0.5, 1.5, float("inf")])
PLACES = st.none() | st.fixed_dictionaries({"city": NAMES, "at": st.none() | st.integers(0, 2)})
ROW = st.fixed_dictionaries({"id": IDS, "day": DAYS, "name": NAMES, "weight": WEIGHTS, "place": PLACES})
WHERE = st.sampled_from(
    [
        "id < 3",
        "id in (1, 4) and name is not null",
        "name like 'a%'",
        "not name like 'a%'",
        "weight > 1 or place.city = 'a'",
        "day >= '2026-01-15'",
        "months(day) = '2026-01' and id > 1",
        "place.at is null",
        "true",
        "id = 99",
    ]
)


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(repr(settled(row)) for row in rows)


def settled(value: Any) -> Any:
    return sorted((name, settled(inner)) for name, inner in value.items()) if isinstance(value, dict) else value


class History(RuleBasedStateMachine):
    """A table and its model, written side by side."""

    @initialize(design=st.sampled_from(DESIGNS), file_size_bytes=st.sampled_from([1, 300, 10**9]))
    def begin(self, design: Design, file_size_bytes: int) -> None:
        schema = parse_schema(SCHEMA)
        scheme = parse_partition_scheme(design.partition_by, schema, "1" if design.is_one_log else "0")
        version = TableVersion(
            1,
            schema,
            keys=tuple(schema.column(key).id for key in design.keys),
            partition_scheme=scheme,
            sort_scheme=parse_sort_scheme(design.sort_by, schema),
        )
        self.design = design
        effects = build_deterministic_effects(MemoryStore())
        self.engine = LocalEngine(effects.store, effects.new_id, file_size_bytes)
        log_scheme = UNPARTITIONED if design.is_one_log else scheme
        properties = {"write.delete-mode": design.delete_mode}
        self.state = TableState("s.t", "table-id", version, log_scheme, properties=properties)
        self.model = TableModel(schema, design.keys)
        self.past: list[tuple[TableState, list[Row]]] = []

    def commit(self, write: PlannedWrite) -> None:
        self.past.append((self.state, self.engine.read(self.state).to_pylist()))
        self.state = apply_write(self.state, write)

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[key] for key in self.design.keys)

    def one_for_each_key(self, rows: list[Row]) -> list[Row]:
        return list({self.key_of(row): row for row in rows}.values())

    @rule(rows=st.lists(ROW, max_size=6))
    def append(self, rows: list[Row]) -> None:
        self.commit(self.engine.append(self.state, rows))
        self.model.append(rows)

    @rule(rows=st.lists(ROW, max_size=6))
    def upsert(self, rows: list[Row]) -> None:
        if self.design.keys:
            chosen = self.one_for_each_key(rows)
            self.commit(self.engine.upsert(self.state, chosen))
            self.model.upsert(chosen)

    @rule(rows=st.lists(ROW, max_size=3))
    def delete_keys(self, rows: list[Row]) -> None:
        if self.design.keys:
            keys = [{key: row[key] for key in self.design.keys} for row in rows]
            self.commit(self.engine.delete(self.state, keys))
            self.model.delete_keys(keys)

    @rule(where=WHERE)
    def delete_where(self, where: str) -> None:
        write = self.engine.delete(self.state, where)
        self.commit(write)
        before = len(self.model.rows)
        self.model.delete(parse_predicate(where, self.model.schema))
        assert write.counts == RowCounts(deleted=before - len(self.model.rows))

    @rule(rows=st.lists(ROW, max_size=3), where=st.none() | WHERE)
    def overwrite(self, rows: list[Row], where: str | None) -> None:
        predicate = None if where is None else parse_predicate(where, self.model.schema)
        inside = [
            row for row in rows if predicate is None or evaluate_predicate(predicate, row, self.model.schema) is True
        ]
        chosen = self.one_for_each_key(inside) if self.design.keys and where else inside
        self.commit(self.engine.overwrite(self.state, chosen, where))
        self.model.overwrite(chosen, predicate)

    @rule(update=st.sampled_from(UPDATES), where=WHERE)
    def update(self, update: tuple[dict[str, Any], Callable[[Row], Row]], where: str) -> None:
        values, change = update
        if "day" in values and "day" in self.design.keys:
            return
        write = self.engine.update(self.state, values, where)
        self.commit(write)
        count = self.model.update(change, parse_predicate(where, self.model.schema))
        assert write.counts == RowCounts(updated=count)

    @rule(rows=st.lists(ROW, max_size=4))
    def merge(self, rows: list[Row]) -> None:
        source = list({row["id"]: row for row in rows}.values())
        if not source:
            return
        write = self.engine.merge(self.state, source, MERGE)
        self.commit(write)
        counts = self.model.merge(source, lambda row, one: bool(row["id"] == one["id"]), _merged)
        assert write.counts == RowCounts(*counts)

    @rule(rows=st.lists(ROW, min_size=1, max_size=4))
    def upsert_some_columns(self, rows: list[Row]) -> None:
        if self.design.keys:
            names = ["id", "day", "name"]
            some = [{name: row[name] for name in names} for row in self.one_for_each_key(rows)]
            write = self.engine.merge(self.state, some, plan_partial_upsert(self.state, names))
            self.commit(write)
            assert write.counts == RowCounts(*self.model.upsert_some(some), 0)

    @rule(first=st.lists(ROW, max_size=4), second=st.lists(ROW, max_size=4))
    def concurrent_writers(self, first: list[Row], second: list[Row]) -> None:
        chosen = [self.one_for_each_key(rows) if self.design.keys else rows for rows in (first, second)]
        write = self.engine.upsert if self.design.keys else self.engine.append
        planned = [write(self.state, rows) for rows in chosen]
        for one, rows in zip(planned, chosen, strict=True):
            self.commit(one)
            (self.model.upsert if self.design.keys else self.model.append)(rows)

    @rule(rows=st.lists(ROW, max_size=4))
    def compact_beside_a_writer(self, rows: list[Row]) -> None:
        chosen = self.one_for_each_key(rows) if self.design.keys else rows
        write: Callable[[TableState, object], PlannedWrite] = (
            self.engine.upsert if self.design.keys else self.engine.append
        )
        compaction, meanwhile = self.engine.compact(self.state), write(self.state, chosen)
        self.commit(meanwhile)
        self.commit(compaction)
        (self.model.upsert if self.design.keys else self.model.append)(chosen)

    @rule()
    def compact(self) -> None:
        self.commit(self.engine.compact(self.state))
        assert self.engine.compact(self.state).deltas == () or any(len(log.deltas) > 1 for log in self.state.logs)

    @rule()
    def add_a_column(self) -> None:
        version, schema = self.state.version, self.state.schema
        column = parse_column(f"more{schema.schema_id} int", schema.last_column_id)
        later = replace(
            schema,
            columns=(*schema.columns, column),
            schema_id=schema.schema_id + 1,
            last_column_id=column.id,
        )
        self.state = replace(
            self.state, version=replace(version, schema=later, earlier_schemas=(*version.earlier_schemas, schema))
        )
        self.model.schema = later

    @rule(back=st.integers(1, 3))
    def roll_back(self, back: int) -> None:
        if len(self.past) >= back:
            self.state, rows = self.past[-back]
            self.model.schema, self.model.rows = self.state.schema, [dict(row) for row in rows]

    @rule(where=WHERE)
    def read_some(self, where: str) -> None:
        found = self.engine.read(self.state, ["name", "id"], where).to_pylist()
        wanted = self.model.read(parse_predicate(where, self.model.schema))
        assert counted(found) == counted([{"name": row["name"], "id": row["id"]} for row in wanted])

    @rule()
    def read_earlier_versions(self) -> None:
        for state, rows in self.past[-3:]:
            assert counted(self.engine.read(state).to_pylist()) == counted(rows)

    @rule()
    def changes_lead_from_earlier_versions_to_the_newest(self) -> None:
        for state, rows in self.past[-3:]:
            changes = self.engine.changes(state, self.state).to_pylist()
            words = Counter(change["_change_type"] for change in changes)
            new, gone = Counter[str](), Counter[str]()
            for change in changes:
                word = change.pop("_change_type")
                (gone if word in ("delete", "update_before") else new).update(counted([change]))
            before = counted([{name: row.get(name) for name in self.state.schema.names} for row in rows])
            now = counted(self.engine.read(self.state).to_pylist())
            unchanged = now - new
            assert unchanged + new == now
            assert gone <= before
            assert unchanged <= before - gone
            assert unchanged == before - gone
            assert words["update_before"] == words["update_after"]

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if hasattr(self, "state"):
            assert counted(self.engine.read(self.state).to_pylist()) == counted(self.model.read())


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=25, stateful_step_count=10, deadline=None)
