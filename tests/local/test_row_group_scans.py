"""Scans read only the row groups, columns and deletes that they need, and return the rows of a plain model."""

import datetime
import decimal
import io
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.expressions.parse import parse_predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.local.data_files import compute_statistics
from mangrove.local.engine import LocalEngine
from mangrove.local.keys import filter_keys_in, filter_keys_not_in, find_visible_rows
from mangrove.local.parquet import ParquetBytes, encode_parquet
from mangrove.local.row_numbers import build_row_numbers
from mangrove.local.scan import ROW as ROW_NUMBER
from mangrove.local.scan import RowTest, stream_numbered_rows
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import DataFile
from mangrove.model.objects import TableVersion
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Int64, Varchar
from mangrove.parallel import map_ahead
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import build_append_delta, plan_write
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.table_model import TableModel, apply_write

Row = dict[str, Any]


class Bench:
    """A table whose files have row groups of a chosen size, on a store that counts requests."""

    def __init__(self, schema: str, keys: tuple[str, ...] = (), delete_mode: str = "auto") -> None:
        parsed = parse_schema(schema)
        version = TableVersion(1, parsed, keys=tuple(parsed.column(key).id for key in keys))
        self.store = CountingStore(MemoryStore())
        self.effects = build_deterministic_effects(self.store)
        self.engine = LocalEngine(self.store, self.effects.new_id)
        self.state = TableState("s.t", "table-id", version, properties={"write.delete-mode": delete_mode})

    def add(
        self,
        rows: list[Row] | pa.Table,
        row_group_size: int,
        *,
        has_statistics: bool = True,
        **options: Any,
    ) -> DataFile:
        """Append a file, with the bounds that Arrow writes."""
        arrow = schema_to_arrow(self.state.schema)
        table = rows.cast(arrow) if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=arrow)
        sink = pa.BufferOutputStream()
        options = {"compression": "none", "use_dictionary": False, **options}
        pq.write_table(table, sink, row_group_size=row_group_size, **options)
        data = sink.getvalue().to_pybytes()
        columns = [(path, column.id) for path, column in self.state.schema.all_columns() if len(path) == 1]
        plain = [(path, one) for path, one in columns if not pa.types.is_nested(table.schema.field(path[0]).type)]
        statistics = compute_statistics(table, plain) if has_statistics else ()
        path = f"data/{self.effects.new_id()}.parquet"
        file = DataFile(path, len(data), table.num_rows, source_size_bytes=table.nbytes, statistics=statistics)
        self.store.put(path, data)
        self.state = apply_write(self.state, plan_write({(): build_append_delta([file])}))
        return file

    def commit(self, write: Any) -> None:
        self.state = apply_write(self.state, write)

    def requests_of(self, work: Any) -> StoreRequests:
        before = self.store.requests
        work()
        return self.store.requests - before


@pytest.fixture
def in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files of some hundred kilobytes like large ones: the footer first, then ranges."""
    monkeypatch.setattr("mangrove.local.parquet._WHOLE_SIZE_BYTES_MAX", 100_000)
    monkeypatch.setattr("mangrove.local.parquet.GAP_SIZE_BYTES_MAX", 0)


COUNT = 40_000
GROUP = 4_000
COLUMN_BYTES = GROUP * 8
SLACK_BYTES = 70_000
"""The footer, and the few bytes behind each column that Arrow may read."""


def make_bench(keys: tuple[str, ...] = (), delete_mode: str = "auto") -> Bench:
    bench = Bench("id bigint not null, v bigint, w bigint", keys, delete_mode)
    numbers = range(COUNT)
    rows = pa.table({"id": numbers, "v": [number * 7_919 % COUNT * 2 for number in numbers], "w": numbers})
    bench.add(rows, GROUP)
    return bench


def test_only_row_groups_that_can_match_are_read(in_ranges: None) -> None:
    bench = make_bench()
    rows: list[Any] = []
    requests = bench.requests_of(lambda: rows.extend(bench.engine.read(bench.state, ["w"], "id = 12345").to_pylist()))
    assert rows == [{"w": 12_345}]
    assert requests.bytes_read < 2 * COLUMN_BYTES + SLACK_BYTES
    assert requests.reads == 1 + 2


def test_other_columns_are_not_read_where_no_row_matches(in_ranges: None) -> None:
    bench = make_bench()
    requests = bench.requests_of(lambda: bench.engine.read(bench.state, None, "v = 4001"))
    assert requests.reads == 1 + COUNT // GROUP
    assert requests.bytes_read < COUNT * 8 + SLACK_BYTES


def test_a_row_test_sees_visible_rows_alone_and_only_row_groups_with_matches_are_read(in_ranges: None) -> None:
    bench = make_bench(("id",))
    bench.commit(bench.engine.delete(bench.state, "id % 4000 = 1"))
    seen: list[Any] = []

    def is_chosen(rows: pa.Table) -> Any:
        seen.extend(rows.column("id").to_pylist())
        return pc.is_in(rows.column("id").combine_chunks(), pa.array([1, 5, 6, 8_003]))

    test = RowTest((bench.state.schema.column("id"),), is_chosen)
    predicate = parse_predicate("id <> 6 and id < 12000", bench.state.schema)
    found: list[tuple[Any, ...]] = []

    def scan() -> None:
        columns, plan = [bench.state.schema.column("w")], plan_scan(bench.state)
        for _, rows in stream_numbered_rows(bench.store, bench.state, plan, columns, predicate, test):
            found.extend(tuple(row.values()) for row in rows.select(["w", ROW_NUMBER]).to_pylist())

    requests = bench.requests_of(scan)
    assert found == [(5, 5), (8_003, 8_003)]
    assert sorted(seen) == [number for number in range(12_000) if number % 4_000 != 1 and number != 6]
    groups = 3
    assert requests.bytes_read < (groups + 2) * COLUMN_BYTES + 2 * SLACK_BYTES


def test_a_condition_that_the_statistics_of_a_file_prove_for_all_rows_is_not_evaluated(in_ranges: None) -> None:
    bench = make_bench()
    rows: list[pa.Table] = []
    requests = bench.requests_of(lambda: rows.append(bench.engine.read(bench.state, ["w"], f"id < {COUNT}")))
    assert requests.reads == 1 + COUNT // GROUP, "the footer, and the requested column of each row group"
    assert rows[0].num_rows == COUNT
    compared = bench.requests_of(lambda: bench.engine.read(bench.state, ["w"], f"id < {COUNT - 1}"))
    assert compared.reads == 1 + 2 * COUNT // GROUP


def test_a_count_reads_the_columns_of_its_condition_alone_and_without_one_nothing(in_ranges: None) -> None:
    bench = make_bench()
    counts: list[int] = []
    requests = bench.requests_of(lambda: counts.append(bench.engine.count(bench.state, "v < 100")))
    assert requests.bytes_read < COUNT * 8 + SLACK_BYTES
    assert bench.requests_of(lambda: counts.append(bench.engine.count(bench.state))).reads == 0
    assert counts == [50, COUNT]


@pytest.mark.parametrize("delete_mode", ["auto", "position"])
def test_deletes_are_computed_once_for_a_table_state(in_ranges: None, delete_mode: str) -> None:
    bench = make_bench(("id",), delete_mode)
    bench.commit(bench.engine.delete(bench.state, "id >= 100 and id < 200"))
    rows: list[pa.Table] = []

    def read() -> None:
        rows.append(bench.engine.read(bench.state, ["w"]))

    first, second, third = (bench.requests_of(read) for _ in range(3))
    assert second.reads == third.reads == 1 + COUNT // GROUP, "the footer and one column of each row group"
    assert second.bytes_read < COUNT * 8 + SLACK_BYTES < first.bytes_read + SLACK_BYTES
    assert first.reads > second.reads
    assert rows[0].equals(rows[1])
    assert rows[0].num_rows == COUNT - 100
    assert bench.requests_of(lambda: bench.engine.count(bench.state)).bytes_read < SLACK_BYTES
    bench.commit(bench.engine.delete(bench.state, "id < 100"))
    read()
    assert rows[-1].num_rows == COUNT - 200


def test_a_further_delete_is_the_only_one_that_the_next_scan_reads(in_ranges: None) -> None:
    bench = make_bench(("id",))
    for number in range(5):
        bench.commit(bench.engine.delete(bench.state, [{"id": number}]))
    earlier = bench.state
    counts: list[int] = []

    def count() -> None:
        counts.append(bench.engine.count(bench.state))

    keys = COUNT // GROUP
    assert bench.requests_of(count).reads == 1 + keys + 5, "the footer, the keys and the delete files"
    bench.commit(bench.engine.delete(bench.state, [{"id": 7}, {"id": COUNT - 1}]))
    assert bench.requests_of(count).reads == 1 + keys + 1
    assert bench.requests_of(count).reads == 1
    bench.state = apply_write(earlier, bench.engine.delete(earlier, [{"id": 8}]))
    assert bench.requests_of(count).reads == 1 + keys + 6, "the newest vectors are those of another history"
    bench.commit(bench.engine.delete(bench.state, [{"id": 9}]))
    assert bench.requests_of(count).reads == 1 + keys + 1
    assert counts == [COUNT - 5, COUNT - 7, COUNT - 7, COUNT - 6, COUNT - 7]


@pytest.mark.parametrize("write", ["update", "delete", "compact"])
def test_writes_use_the_deletion_vectors_of_earlier_scans(in_ranges: None, write: str) -> None:
    bench = make_bench(("id",), "position")
    bench.commit(bench.engine.delete(bench.state, [{"id": number} for number in range(0, COUNT, 2)]))
    (deleted,) = (entry.location for delta in bench.state.logs[0].deltas[1:] for entry in delta.manifest.entries)
    bench.engine.count(bench.state)
    bench.store.delete_many([deleted])
    match write:
        case "update":
            bench.commit(bench.engine.update(bench.state, {"v": 1}, "id < 10"))
        case "delete":
            bench.commit(bench.engine.delete(bench.state, "id < 10"))
        case _:
            bench.commit(bench.engine.compact(bench.state))
    assert bench.engine.count(bench.state, "id >= 10") == COUNT // 2 - 5


@pytest.mark.parametrize("delete_mode", ["auto", "position"])
def test_rows_are_deleted_without_reading_any_other_column(in_ranges: None, delete_mode: str) -> None:
    bench = make_bench(("id",), delete_mode)
    bench.commit(bench.engine.delete(bench.state, "id = 7"))
    bench.commit(bench.engine.delete(bench.state, "true"))
    assert bench.engine.count(bench.state) == 0
    assert bench.engine.read(bench.state).num_rows == 0
    assert bench.engine.read(bench.state, []).num_rows == 0


def test_a_file_with_rows_and_delete_keys_is_opened_once() -> None:
    bench = Bench("id bigint not null, v bigint", ("id",))
    for number in range(3):
        bench.commit(bench.engine.upsert(bench.state, [{"id": 1, "v": number}, {"id": number + 5, "v": 0}]))
    assert bench.requests_of(lambda: bench.engine.read(bench.state)).reads == 3


def test_batches_are_read_lazily(in_ranges: None) -> None:
    bench = Bench("id bigint, v bigint")
    bench.add(pa.table({"id": range(COUNT), "v": range(COUNT)}), 500)
    read: list[int] = []

    def take_first() -> None:
        batches = bench.engine.read_batches(bench.state, ["id"])
        read.append(next(batches).num_rows)
        batches.close()  # type: ignore[attr-defined]

    assert bench.requests_of(take_first).reads < COUNT // 500 // 2
    assert read == [500]
    batches = list(bench.engine.read_batches(bench.state, ["v"], "id >= 700"))
    assert pa.Table.from_batches(batches)["v"].to_pylist() == list(range(700, COUNT))


@pytest.mark.parametrize("use_dictionary", [False, True])
def test_batches_need_the_memory_of_a_few_row_groups(monkeypatch: pytest.MonkeyPatch, *, use_dictionary: bool) -> None:
    row_group_bytes = 1024 * 1024
    monkeypatch.setattr("mangrove.local.scan._IN_FLIGHT_BYTES_MAX", 2 * row_group_bytes)
    bench = Bench("id bigint, v bigint")
    groups, rows = 40, row_group_bytes // 16
    numbers = pa.repeat(pa.scalar(7, pa.int64()), groups * rows)
    table = pa.table({"id": numbers, "v": numbers})
    file = bench.add(table, rows, compression="zstd", use_dictionary=use_dictionary)
    assert file.size_bytes < 4 * row_group_bytes, "read as a whole"
    before = pa.total_allocated_bytes()
    allocated = [pa.total_allocated_bytes() - before for _ in bench.engine.read_batches(bench.state)]
    assert len(allocated) == groups
    assert max(allocated) - file.size_bytes < 6 * row_group_bytes


def test_work_ahead_is_bounded_by_size_and_keeps_the_order() -> None:
    started: list[int] = []

    def work(item: int) -> int:
        started.append(item)
        return -item

    results = map_ahead(work, iter(range(20)), lambda _: 40, 100)
    assert next(results) == 0
    assert len(started) <= 3, "two items of this size fit, and one result was taken"
    assert list(results) == [-item for item in range(1, 20)]


def test_files_that_are_encoded_in_parallel_have_the_same_names_and_bytes_each_time() -> None:
    rows = pa.table({"id": range(5_000), "v": range(5_000)})
    written: list[dict[str, bytes]] = []
    for _ in range(2):
        store = MemoryStore()
        state = Bench("id bigint, v bigint").state
        engine = LocalEngine(store, build_deterministic_effects(store).new_id, file_size_bytes=2_000)
        state = apply_write(state, engine.append(state, rows))
        assert engine.read(state).to_pydict() == rows.to_pydict()
        written.append({entry.path: store.read(entry.path) for entry in store.list() if isinstance(entry, ObjectInfo)})
    assert written[0] == written[1]
    assert len(written[0]) == 40


@pytest.mark.parametrize("count", [40_000, 1024 * 1024])
def test_a_dictionary_is_written_unless_most_values_are_distinct(count: int) -> None:
    numbers = build_row_numbers(count)
    rows = pa.table({"distinct": numbers, "repeated": pc.bit_wise_and(numbers, 63)})
    footer: Any = pq.read_metadata(pa.BufferReader(encode_parquet(rows)))
    chunks = [footer.row_group(footer.num_row_groups - 1).column(place) for place in range(2)]
    assert [chunk.has_dictionary_page for chunk in chunks] == [False, True]
    assert [chunk.statistics.max for chunk in chunks] == [count - 1, 63]


def test_ascending_integers_are_stored_as_differences() -> None:
    numbers: Any = build_row_numbers(400_000)
    columns = {
        "ascending": numbers,
        "nullable": pc.if_else(
            pc.equal(pc.bit_wise_and(numbers, 63), pa.scalar(3, pa.int64())), pa.scalar(None, pa.int64()), numbers
        ),
        "narrow": numbers.cast(pa.int32()),
        "times": numbers.cast(pa.timestamp("us")),
        "descending": numbers[::-1],
        "repeated": pc.bit_wise_and(numbers, 63),
        "texts": numbers.cast(pa.string()),
    }
    rows = pa.table(columns)
    file = pq.ParquetFile(pa.BufferReader(encode_parquet(rows)))
    chunks = [file.metadata.row_group(1).column(place) for place in range(len(columns))]
    differences = {chunk.path_in_schema for chunk in chunks if "DELTA_BINARY_PACKED" in chunk.encodings}
    assert differences == {"ascending", "nullable", "narrow", "times"}
    assert file.read().equals(rows)
    sums = "sum(ascending), sum(nullable), sum(narrow), max(times)"
    read = duckdb.from_parquet(io.BytesIO(encode_parquet(rows)))
    assert read.aggregate(sums).fetchall() == duckdb.from_arrow(rows).aggregate(sums).fetchall()


def test_row_groups_of_one_file_are_read_into_one_buffer() -> None:
    store, pool = MemoryStore(), pa.default_memory_pool()
    numbers = build_row_numbers(1_000_000)
    incompressible = pc.random(len(numbers), initializer=1)
    rows = pa.table({"id": numbers, "a": incompressible, "b": incompressible})
    data = encode_parquet(rows)
    store.create("f.parquet", data)
    reader = ParquetBytes(store, DataFile("f.parquet", len(data), rows.num_rows))
    before = pool.total_bytes_allocated()
    read = [reader.read_row_group(number, ["id"]) for number in range(4)]
    assert pa.concat_tables(read).equals(rows.select(["id"]))
    assert pool.total_bytes_allocated() - before < 2 * len(data)


def test_a_selective_filter_decodes_a_quarter_of_a_million_rows() -> None:
    footer: Any = pq.read_metadata(pa.BufferReader(encode_parquet(pa.table({"id": build_row_numbers(600_000)}))))
    assert [footer.row_group(place).num_rows for place in range(3)] == [262_144, 262_144, 75_712]


IDS = st.integers(0, 7) | st.sampled_from([-(2**63), 2**63 - 1])
KEYS = st.lists(st.tuples(IDS | st.none(), st.sampled_from(["a", "b"])), max_size=8)


def test_floats_have_no_dictionary_in_which_spark_would_tell_the_zeros_apart() -> None:
    rows = pa.table({"x": [0.0, 0.0], "s": pa.array([{"y": 0.0, "n": 1}] * 2), "n": [1, 1]})
    group = pq.read_metadata(pa.BufferReader(encode_parquet(rows))).row_group(0)
    found = {group.column(place).path_in_schema: group.column(place).has_dictionary_page for place in range(4)}
    assert found == {"x": False, "s.y": False, "s.n": True, "n": True}


@pytest.mark.parametrize("names", [["id"], ["id", "name"]])
@given(parts=st.lists(st.tuples(KEYS, st.integers(1, 5)), min_size=1, max_size=4), deletes=st.data())
def test_a_row_is_visible_unless_a_later_delete_has_its_keys(
    names: list[str], parts: list[tuple[list[Any], int]], deletes: st.DataObject
) -> None:
    chosen = deletes.draw(st.lists(st.tuples(KEYS, st.integers(1, 6)), min_size=1, max_size=4))
    fields: Any = [("id", pa.int64()), ("name", pa.string())]
    schema = pa.schema(fields)
    columns = [column for column in (Column(1, "id", Int64()), Column(2, "name", Varchar())) if column.name in names]

    def to_tables(some: list[tuple[list[Any], int]]) -> list[tuple[pa.Table, int]]:
        rows = [([dict(zip(["id", "name"], key, strict=True)) for key in keys], position) for keys, position in some]
        return [(pa.Table.from_pylist(one, schema=schema).select(names), position) for one, position in rows]

    masks = find_visible_rows(to_tables(parts), to_tables(chosen), columns)
    for (keys, position), mask in zip(parts, masks, strict=True):
        later = {key[: len(names)] for some, at in chosen if at > position for key in some}
        assert mask.to_pylist() == [key[0] is None or key[: len(names)] not in later for key in keys]


@pytest.mark.parametrize("names", [["id"], ["name"], ["id", "name"]])
@given(rows=KEYS, selected=KEYS)
def test_rows_are_selected_by_keys_in_order_and_null_matches_nothing(
    names: list[str], rows: list[Any], selected: list[Any]
) -> None:
    columns = [column for column in (Column(1, "id", Int64()), Column(2, "name", Varchar())) if column.name in names]
    fields: Any = [("id", pa.int64()), ("name", pa.string())]
    table, other = (
        pa.Table.from_pylist([{"id": number, "name": name} for number, name in some], schema=pa.schema(fields))
        for some in (rows, selected)
    )

    def key_of(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    known = {key_of(row) for row in other.to_pylist()}
    is_selected = [key_of(row) in known and None not in key_of(row) for row in table.to_pylist()]
    expected = {
        answer: [row for row, one in zip(table.to_pylist(), is_selected, strict=True) if one is answer]
        for answer in (True, False)
    }
    assert filter_keys_in(table, other, columns).to_pylist() == expected[True]
    assert filter_keys_not_in(table, other, columns).to_pylist() == expected[False]


SCHEMA = (
    "id int not null, name string, v float, d decimal(6,2), t timestamp, day date, raw binary, "
    "place struct<city: string, at: int>"
)
MOMENTS = st.sampled_from([datetime.datetime(2026, 1, day, 12, tzinfo=datetime.UTC) for day in (1, 2, 3)])
LONG = "x" * 100
NAMES = st.none() | st.sampled_from(["", "a", "ab", "b", LONG, LONG + "a", "\U0010ffff"])
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(0, 12),
        "name": NAMES,
        "v": st.none() | st.sampled_from([-0.0, 0.0, 0.5, 1.5, math.inf, -math.inf, math.nan]),
        "d": st.none() | st.sampled_from([decimal.Decimal(text) for text in ("-1.50", "0.00", "99.99")]),
        "t": st.none() | MOMENTS,
        "day": st.none() | st.sampled_from([datetime.date(1969, 12, 31), datetime.date(2026, 1, 2)]),
        "raw": st.none() | st.sampled_from([b"", b"\x00", b"\xff"]),
        "place": st.none() | st.fixed_dictionaries({"city": NAMES, "at": st.none() | st.integers(-1, 3)}),
    }
)
WHERE = st.sampled_from(
    [
        "id < 3",
        "id = 5 or id > 10",
        "id in (1, 4) and name is not null",
        "id > 3000000000",
        "name = 'a'",
        f"name >= '{LONG}'",
        "name like 'a%'",
        "not name like 'a%'",
        "name is null",
        "v > 1",
        "v >= 0",
        "v <= 0",
        "v <> 0.5",
        "v < 1",
        "v not in (0.5, 1.5)",
        "d > 0",
        "d = 99.99",
        "t >= timestamp '2026-01-02 12:00:00'",
        "day < '2000-01-01'",
        "place.city = 'b'",
        "place.at > 1",
        "place.at is null",
        "true",
    ]
)


def count_rows_of(rows: list[Row]) -> Counter[str]:
    return Counter(repr(normalize(row)) for row in rows)


def normalize(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat()
    return sorted((name, normalize(one)) for name, one in value.items()) if isinstance(value, dict) else value


def evolve(schema: Schema) -> Schema:
    """Return the schema with renamed and widened columns of the same ids."""
    changed = parse_schema(
        "id bigint not null, title string, v double, d decimal(9,2), t timestamp, day date, raw binary, "
        "place struct<town: string, at: bigint>"
    )
    assert [column.id for _, column in changed.all_columns()] == [column.id for _, column in schema.all_columns()]
    return replace(changed, schema_id=schema.schema_id + 1)


def rename(row: Row) -> Row:
    renamed = {"title" if name == "name" else name: value for name, value in row.items()}
    place = row["place"]
    return {**renamed, "place": None if place is None else {"town": place["city"], "at": place["at"]}}


@settings(max_examples=60, deadline=None)
@given(
    files=st.lists(st.lists(ROW, min_size=1, max_size=9), min_size=1, max_size=3),
    row_group_size=st.integers(1, 4),
    upserted=st.lists(ROW, max_size=5, unique_by=lambda row: repr(row["id"])),
    deleted=st.sampled_from(["false", "id = 3", "v > 1", "name is null"]),
    delete_mode=st.sampled_from(["auto", "position"]),
    conditions=st.lists(WHERE, min_size=3, max_size=5),
    is_evolved=st.booleans(),
    has_statistics=st.booleans(),
)
def test_scans_with_pruning_and_deletes_equal_a_plain_model(
    files: list[list[Row]],
    row_group_size: int,
    upserted: list[Row],
    deleted: str,
    delete_mode: str,
    conditions: list[str],
    is_evolved: bool,
    has_statistics: bool,
) -> None:
    bench = Bench(SCHEMA, ("id",), delete_mode)
    model = TableModel(bench.state.schema, ("id",))
    for rows in files:
        bench.add(rows, row_group_size, has_statistics=has_statistics)
        model.append(rows)
    if is_evolved:
        version, schema = bench.state.version, bench.state.schema
        evolved = evolve(schema)
        bench.state = replace(bench.state, version=replace(version, schema=evolved, earlier_schemas=(schema,)))
        model.schema, model.rows = evolved, [rename(row) for row in model.rows]
        upserted = [rename(row) for row in upserted]
        texts = [text.replace("name", "title").replace("place.city", "place.town") for text in [deleted, *conditions]]
        deleted, conditions = texts[0], texts[1:]
    bench.commit(bench.engine.upsert(bench.state, upserted))
    model.upsert(upserted)
    bench.commit(bench.engine.delete(bench.state, deleted))
    model.delete(parse_predicate(deleted, model.schema))
    # The first condition comes again when the deletes are cached.
    for where in [*conditions, conditions[0]]:
        expected = model.read(parse_predicate(where, model.schema))
        rows = bench.engine.read(bench.state, None, where).to_pylist()
        assert count_rows_of(rows) == count_rows_of(expected), where
        batches = bench.engine.read_batches(bench.state, None, where)
        assert [row for batch in batches for row in batch.to_pylist()] == rows or "nan" in repr(rows)
        assert bench.engine.count(bench.state, where) == len(expected)
    assert bench.engine.count(bench.state) == len(model.rows)
