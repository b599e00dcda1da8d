"""The deltas of an Iceberg client's commit mean the rows that Iceberg means, whatever of ours stood before them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.commit.snapshot_to_deltas import (
    FileInLog,
    LiveDataFile,
    SnapshotChanges,
    index_live_files,
    plan_client_write,
)
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.objects import Delta, DeltaType, TableVersion
from mangrove.model.partitioning import UNPARTITIONED, PartitionScheme, parse_partition_scheme
from mangrove.model.values import Value
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import PlannedWrite, build_compaction_delta, build_upsert_delta, plan_write

SCHEMA = parse_schema("id bigint not null, p int not null")
KEYS = (1, 2)
Row = tuple[int, int]
Values = tuple[Value | None, ...]


@dataclass
class Written:
    """What lies in the files of a made-up store."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    keys: dict[str, set[Row]] = field(default_factory=dict)
    positions: dict[str, set[int]] = field(default_factory=dict)

    def _name(self) -> str:
        return f"data/t/{len(self.rows) + len(self.keys) + len(self.positions)}.parquet"

    def data(self, rows: list[Row]) -> DataFile:
        self.rows[name := self._name()] = rows
        return DataFile(name, 1, len(rows))

    def key_file(self, rows: Iterable[Row]) -> DataFile:
        self.keys[name := self._name()] = set(rows)
        return DataFile(name, 1, len(self.keys[name]), kind=FileKind.KEY_DELETES, key_ids=KEYS)

    def position_file(self, location: str, numbers: Iterable[int]) -> DataFile:
        self.positions[name := self._name()] = set(numbers)
        count = len(self.positions[name])
        return DataFile(name, 1, count, kind=FileKind.POSITION_DELETES, applies_to=location)


def visible(state: TableState, written: Written) -> Counter[Row]:
    """Return the rows that a scan sees."""
    seen: Counter[Row] = Counter()
    for scan in plan_scan(state).scans:
        deleted_rows = {number for one in scan.position_deletes for number in written.positions[one.location]}
        keys = {key for one in scan.equality_deletes for key in _keys_of(one.file, written)}
        for number, row in enumerate(written.rows[scan.file.location]):
            if number not in deleted_rows and row not in keys:
                seen[row] += 1
    return seen


def _keys_of(file: DataFile, written: Written) -> Iterable[Row]:
    return written.keys[file.location] if file.kind is FileKind.KEY_DELETES else written.rows[file.location]


def after(state: TableState, write: PlannedWrite) -> TableState:
    """Return the state with the deltas of a write at the ends of their logs."""
    logs = {log.values: log for log in state.logs}
    for one in write.deltas:
        log = logs.get(one.log_values, PartitionLog(one.log_values))
        kept = () if _replaces_all(one.delta) else log.deltas
        delta = replace(one.delta, position=log.last_position + 1)
        logs[one.log_values] = PartitionLog(one.log_values, (*kept, delta))
    return replace(state, logs=tuple(logs.values()))


def _replaces_all(delta: Delta) -> bool:
    return delta.type is DeltaType.REPLACE and not delta.replaced_locations and delta.replaces_through is None


def table(scheme: PartitionScheme = UNPARTITIONED) -> TableState:
    version = TableVersion(1, SCHEMA, keys=KEYS, partition_scheme=scheme)
    return TableState("s.t", "t", version, scheme)


def placed_in(state: TableState, row: Row) -> Values:
    return (row[1],) if state.log_scheme.fields else ()


def files_of(state: TableState, rows: Iterable[Row]) -> list[tuple[Values, list[Row]]]:
    by_values: dict[Values, list[Row]] = {}
    for row in rows:
        by_values.setdefault(placed_in(state, row), []).append(row)
    return list(by_values.items())


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), max_size=5)


@settings(max_examples=60)
@given(st.data())
def test_rows_follow_iceberg_semantics_after_any_commits_of_clients_and_mangrove(data: st.DataObject) -> None:
    written = Written()
    scheme = data.draw(st.sampled_from([UNPARTITIONED, parse_partition_scheme(["p"], SCHEMA)]))
    state = table(scheme)
    model: dict[str, dict[int, Row]] = {}
    """The rows that a client sees in each file, by their numbers."""
    for _ in range(data.draw(st.integers(1, 5))):
        rows = data.draw(ROWS)
        if data.draw(st.booleans(), label="an upsert of ours"):
            distinct = list(dict.fromkeys(rows))
            new = [(values, written.data(part)) for values, part in files_of(state, distinct)]
            _delete_rows(model, distinct)
            write = plan_write({values: build_upsert_delta([file], KEYS) for values, file in new})
        else:
            gone = data.draw(st.sets(st.sampled_from(sorted(model)))) if model else set()
            new = [(values, written.data(part)) for values, part in files_of(state, rows)]
            for location in gone:
                del model[location]
            deleted = data.draw(ROWS) if data.draw(st.booleans(), label="by keys") else []
            _delete_rows(model, deleted)
            write = plan_client_write(
                state, _snapshot_changes(data, state, written, model, new, deleted, gone), {"by": "client"}
            )
            assert all(one.delta.properties == {"by": "client"} for one in write.deltas)
        # Row numbers that hide rows of a new file were taken from the model in advance.
        for _, file in new:
            deleted_rows = {
                number
                for one in written.positions
                for number in written.positions[one]
                if _applies_to(write, one) == file.location
            }
            here = enumerate(written.rows[file.location])
            model[file.location] = {number: row for number, row in here if number not in deleted_rows}
        state = after(state, write)
        assert visible(state, written) == Counter(row for file in model.values() for row in file.values())


def _applies_to(write: PlannedWrite, location: str) -> str | None:
    entries = (entry for one in write.deltas for entry in one.delta.manifest.entries)
    return next((entry.applies_to for entry in entries if entry.location == location), None)


def _delete_rows(model: dict[str, dict[int, Row]], keys: Iterable[Row]) -> None:
    wanted = set(keys)
    for file in model.values():
        for number in [number for number, row in file.items() if row in wanted]:
            del file[number]


def _snapshot_changes(
    data: st.DataObject,
    state: TableState,
    written: Written,
    model: dict[str, dict[int, Row]],
    new: list[FileInLog],
    deleted: list[Row],
    gone: set[str],
) -> SnapshotChanges:
    live_by_location = index_live_files(state)
    leaving = [live_by_location[location] for location in gone]
    delete_files = {
        one.live.file.location: written.position_file(one.live.file.location, range(one.live.file.row_count))
        for one in leaving
        if one.live.deletes_earlier_rows
    }
    for location in data.draw(st.sets(st.sampled_from(sorted(model)))) if model else set():
        numbers = data.draw(st.sets(st.integers(0, len(written.rows[location]) - 1)), label="by their numbers")
        delete_files[location] = written.position_file(location, numbers)
        for number in numbers:
            model[location].pop(number, None)
    for _, file in new:
        if data.draw(st.booleans(), label="rows of a new file too"):
            delete_files[file.location] = written.position_file(file.location, {0})
    keys = [(values, written.key_file(part)) for values, part in files_of(state, deleted)]
    return SnapshotChanges(new, keys, leaving, delete_files)


def test_new_files_alone_are_an_append() -> None:
    write = plan_client_write(table(), SnapshotChanges([((), DataFile("a.parquet", 1, 1))]), {})
    assert [one.delta.type for one in write.deltas] == [DeltaType.APPEND]


def test_removing_all_files_replaces_the_whole_log() -> None:
    first = plan_client_write(table(), SnapshotChanges([((), DataFile("a.parquet", 1, 1))]), {})
    state = after(table(), first)
    write = plan_client_write(
        state, SnapshotChanges([((), DataFile("b.parquet", 1, 1))], removed=[*index_live_files(state).values()]), {}
    )
    (only,) = write.deltas
    assert (only.delta.type, only.delta.replaced_locations) == (DeltaType.REPLACE, ())


def test_a_commit_that_changes_no_file_has_no_deltas() -> None:
    assert plan_client_write(table(), SnapshotChanges(), {}).deltas == ()


def test_a_client_can_remove_files_of_a_compaction() -> None:
    files = [DataFile("a.parquet", 1, 1), DataFile("b.parquet", 1, 1)]
    state = after(table(), plan_write({(): build_compaction_delta(files, 3)}))
    gone = index_live_files(state)["a.parquet"]
    assert isinstance(gone, LiveDataFile)
    assert not gone.live.deletes_earlier_rows
    write = plan_client_write(state, SnapshotChanges(removed=[gone]), {})
    assert set(index_live_files(after(state, write))) == {"b.parquet"}
