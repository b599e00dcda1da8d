"""A checker of isolation in the style of Elle: dependency graphs of observed transactions and the anomalies in them.

Every written value is unique, so that a read shows who wrote what it returns. A list shows
the order of all values before it; the order of a register's values is known only where a
transaction read one value and wrote the next. Dependencies between transactions are

    ww   the second one overwrote, or appended to, what the first one wrote
    wr   the second one read what the first one wrote
    rw   the first one read what the second one then overwrote
    rt   the first one ended before the second one began

A read by a predicate reads every key that the predicate could match, also one without a value.
A cycle of dependencies contradicts a serial order; its edges name the anomaly (Adya; Cerone and Gotsman
for snapshot isolation, which allows only cycles with two adjacent rw edges).
"""

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = [
    "ALLOWED_AT_SNAPSHOT",
    "Anomaly",
    "AnomalyName",
    "Append",
    "ObservedTransaction",
    "ReadList",
    "ReadRegister",
    "Step",
    "Write",
    "find_anomalies",
]


@dataclass(frozen=True, slots=True)
class Append:
    """Append a value to a list."""

    key: str
    value: int


@dataclass(frozen=True, slots=True)
class Write:
    """Overwrite a register."""

    key: str
    value: int


@dataclass(frozen=True, slots=True)
class ReadList:
    """A read of a list, with what it returned."""

    key: str
    values: tuple[int, ...]
    by_predicate: bool = False
    """Whether it is one of several lists that a predicate was applied to."""


@dataclass(frozen=True, slots=True)
class ReadRegister:
    """A read of a register, with what it returned; None if nothing was written before."""

    key: str
    value: int | None
    by_predicate: bool = False
    """Whether it is one of several registers that a predicate was applied to."""


Step: TypeAlias = Append | Write | ReadList | ReadRegister


@dataclass(frozen=True, slots=True)
class ObservedTransaction:
    """What one transaction did and returned, between two points in real time."""

    id: str
    steps: tuple[Step, ...]
    began: int = 0
    ended: int = 0
    is_committed: bool = True


class AnomalyName(enum.Enum):
    """What is wrong with a history."""

    G0 = "G0, dirty write"
    G1A = "G1a, aborted read"
    G1B = "G1b, intermediate read"
    G1C = "G1c, circular information flow"
    G_SINGLE = "G-single, read skew"
    FRACTURED_READ = "fractured read"
    LOST_UPDATE = "lost update"
    LONG_FORK = "long fork"
    G2_ITEM = "G2-item, write skew"
    G2 = "G2, write skew by predicates"
    REAL_TIME = "real-time violation"
    G2_ITEM_REAL_TIME = "G2-item with real time"
    INCOMPATIBLE_ORDER = "incompatible order"
    DUPLICATE = "duplicate value"
    INTERNAL = "internal inconsistency"


ALLOWED_AT_SNAPSHOT: Final = frozenset({AnomalyName.G2_ITEM, AnomalyName.G2, AnomalyName.G2_ITEM_REAL_TIME})


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An anomaly, the transactions that take part in it, and what shows it."""

    name: AnomalyName
    transactions: tuple[str, ...]
    evidence: str

    def __str__(self) -> str:
        return f"{self.name.value} of {', '.join(self.transactions)}: {self.evidence}"


def find_anomalies(history: Sequence[ObservedTransaction]) -> list[Anomaly]:
    """Return the anomalies in a history, at most one of each name for the same transactions."""
    written = _index_writes(history)
    committed = [one for one in history if one.is_committed]
    found = [
        *_find_internal(committed),
        *_find_dirty_reads(committed, written),
        *_find_disorder(committed),
        *_find_lost_updates(committed),
    ]
    graph = _build_graph(committed, written)
    known = {frozenset(one.transactions) for one in found}
    found += [one for one in _find_cycles(graph) if frozenset(one.transactions) not in known]
    unique: dict[tuple[AnomalyName, frozenset[str]], Anomaly] = {}
    for one in found:
        unique.setdefault((one.name, frozenset(one.transactions)), one)
    return list(unique.values())


@dataclass(frozen=True, slots=True)
class _Written:
    """A value that a transaction wrote, and whether it wrote no other one to the same key later."""

    by: ObservedTransaction
    is_last: bool


_Writes: TypeAlias = Mapping[tuple[str, int], _Written]


def _index_writes(history: Iterable[ObservedTransaction]) -> _Writes:
    found: dict[tuple[str, int], _Written] = {}
    for one in history:
        last = {step.key: step.value for step in one.steps if isinstance(step, Append | Write)}
        for step in one.steps:
            if isinstance(step, Append | Write):
                assert (step.key, step.value) not in found, f"{step} is not unique"
                found[step.key, step.value] = _Written(one, last[step.key] == step.value)
    return found


def _external_reads(one: ObservedTransaction) -> Iterator[ReadList | ReadRegister]:
    """Yield the reads of what others wrote: those before the first own write to the key."""
    own: set[str] = set()
    for step in one.steps:
        if isinstance(step, Append | Write):
            own.add(step.key)
        elif step.key not in own:
            yield step


def _find_internal(committed: Iterable[ObservedTransaction]) -> Iterator[Anomaly]:
    """Yield the transactions that read something else than what they had read and written before."""
    for one in committed:
        known: dict[str, tuple[int, ...] | int | None] = {}
        appended: dict[str, tuple[int, ...]] = {}
        for step in one.steps:
            match step:
                case Write(key, value):
                    known[key] = value
                case Append(key, value):
                    appended[key] = (*appended.get(key, ()), value)
                case ReadRegister(key, value):
                    if known.setdefault(key, value) != value:
                        yield Anomaly(AnomalyName.INTERNAL, (one.id,), f"{step} after {known[key]}")
                case ReadList(key, values):
                    own = appended.get(key, ())
                    before = values[: len(values) - len(own)]
                    if (*before, *own) != values or known.setdefault(key, before) != before:
                        yield Anomaly(AnomalyName.INTERNAL, (one.id,), f"{step} after {known.get(key)} and {own}")


def _find_dirty_reads(committed: Iterable[ObservedTransaction], written: _Writes) -> Iterator[Anomaly]:
    """Yield reads of values that were aborted, never written, or not the last of their transaction."""
    for one in committed:
        for read in _external_reads(one):
            values = read.values if isinstance(read, ReadList) else () if read.value is None else (read.value,)
            for value in values:
                writer = written.get((read.key, value))
                if writer is None or not writer.by.is_committed:
                    name = "nobody" if writer is None else writer.by.id
                    yield Anomaly(AnomalyName.G1A, (one.id, name), f"{read} has {value}")
            last = written.get((read.key, values[-1])) if values else None
            if last is not None and not last.is_last:
                yield Anomaly(AnomalyName.G1B, (one.id, last.by.id), f"{read} ends with {values[-1]}")


def _find_disorder(committed: Iterable[ObservedTransaction]) -> Iterator[Anomaly]:
    """Yield lists that hold a value twice, and pairs of which neither is a prefix of the other."""
    longest = _find_longest_reads(committed)
    for one in committed:
        for read in one.steps:
            if isinstance(read, ReadList):
                if len(set(read.values)) < len(read.values):
                    yield Anomaly(AnomalyName.DUPLICATE, (one.id,), str(read))
                reader, values = longest[read.key]
                if values[: len(read.values)] != read.values:
                    yield Anomaly(AnomalyName.INCOMPATIBLE_ORDER, (one.id, reader), f"{read} and {values}")


def _find_longest_reads(committed: Iterable[ObservedTransaction]) -> dict[str, tuple[str, tuple[int, ...]]]:
    longest: dict[str, tuple[str, tuple[int, ...]]] = {}
    for one in committed:
        for read in one.steps:
            if isinstance(read, ReadList) and len(read.values) >= len(longest.get(read.key, ("", ()))[1]):
                longest[read.key] = one.id, read.values
    return longest


def _find_lost_updates(committed: Iterable[ObservedTransaction]) -> Iterator[Anomaly]:
    """Yield pairs of transactions that read the same state of a key and both wrote the key."""
    updates: dict[tuple[str, object], str] = {}
    for one in committed:
        wrote = {step.key for step in one.steps if isinstance(step, Append | Write)}
        states = {
            (read.key, read.values if isinstance(read, ReadList) else read.value)
            for read in _external_reads(one)
            if read.key in wrote
        }
        for key, state in sorted(states, key=repr):
            first = updates.setdefault((key, state), one.id)
            if first != one.id:
                yield Anomaly(AnomalyName.LOST_UPDATE, (first, one.id), f"both read {state} in {key} and wrote {key}")


@dataclass(slots=True)
class _Graph:
    """The dependencies between transactions by label, each with its reason."""

    edges: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    """Source, target, label, reason."""
    items: set[tuple[str, str]] = field(default_factory=set)
    """The pairs of which the first read a key by itself that the second overwrote."""

    def add(self, source: str, target: str, label: str, reason: str) -> None:
        if source != target:
            self.edges.setdefault(source, {}).setdefault(target, {}).setdefault(label, reason)

    def select(self, labels: frozenset[str]) -> dict[str, list[tuple[str, str]]]:
        """Return the targets and labels of each source, without transactions that are on no cycle."""
        selected = {
            source: [(target, label) for target, found in targets.items() for label in found if label in labels]
            for source, targets in self.edges.items()
        }
        while True:
            reached = {target for targets in selected.values() for target, _ in targets}
            sources = {source for source, targets in selected.items() if targets} & reached
            trimmed = {source: [one for one in selected[source] if one[0] in sources] for source in sorted(sources)}
            if trimmed == selected:
                return trimmed
            selected = trimmed


def _build_graph(committed: Sequence[ObservedTransaction], written: _Writes) -> _Graph:
    graph = _Graph()
    following = _order_lists(committed, written) | _order_registers(committed, written)
    for (key, value), later in following.items():
        for later_value in later:
            if value is not None:
                graph.add(
                    written[key, value].by.id, written[key, later_value].by.id, "ww", f"{value} then {later_value}"
                )
    for one in committed:
        for read in _external_reads(one):
            value = (read.values[-1] if read.values else None) if isinstance(read, ReadList) else read.value
            if value is not None and (read.key, value) in written:
                graph.add(written[read.key, value].by.id, one.id, "wr", f"{value} in {read.key}")
            for later_value in following.get((read.key, value), ()):
                if not read.by_predicate:
                    graph.items.add((one.id, written[read.key, later_value].by.id))
                graph.add(one.id, written[read.key, later_value].by.id, "rw", f"{later_value} after {read}")
    _add_real_time(graph, committed)
    return graph


_Following: TypeAlias = dict[tuple[str, int | None], tuple[int, ...]]
"""The values that follow a value of a key directly; None is the first state."""


def _order_lists(committed: Sequence[ObservedTransaction], written: _Writes) -> _Following:
    """Return the order of appended values; those that no read shows come after those that one does."""
    following: _Following = {}
    for key, (_, values) in _find_longest_reads(committed).items():
        known = [value for value in values if (key, value) in written]
        following |= {(key, before): (after,) for before, after in zip([None, *known], known, strict=False)}
        unread = [
            step.value
            for one in committed
            for step in one.steps
            if isinstance(step, Append) and step.key == key and step.value not in values
        ]
        following[key, known[-1] if known else None] = tuple(unread)
    return following


def _order_registers(committed: Sequence[ObservedTransaction], written: _Writes) -> _Following:
    """Return the order of register values as far as transactions that read and wrote a register show it."""
    following: dict[tuple[str, int | None], list[int]] = {}
    for one in committed:
        known: dict[str, int | None] = {}
        for step in one.steps:
            match step:
                case ReadRegister(key, value):
                    known[key] = value
                case Write(key, value):
                    following.setdefault((key, None), []).append(value)
                    before = known.get(key)
                    if before is not None and (key, before) in written:
                        following.setdefault((key, before), []).append(value)
                    known[key] = value
    return {place: tuple(values) for place, values in following.items()}


def _add_real_time(graph: _Graph, committed: Sequence[ObservedTransaction]) -> None:
    """Add an edge from each transaction to those that began after its end, except where a third one is in between."""
    for one in committed:
        later = [other for other in committed if one.ended < other.began]
        first_end = min((other.ended for other in later), default=0)
        for other in later:
            if other.began <= first_end:
                graph.add(one.id, other.id, "rt", f"ended at {one.ended}, began at {other.began}")


@dataclass(frozen=True, slots=True)
class _Search:
    """A kind of cycle: one that begins with a label and goes on with others."""

    begins_with: str
    labels: frozenset[str]
    has_adjacent_reads: bool = False
    """Whether two rw edges may be adjacent, which snapshot isolation allows."""


_SEARCHES: Final = (
    _Search("ww", frozenset({"ww"})),
    _Search("wr", frozenset({"ww", "wr"})),
    _Search("rw", frozenset({"ww", "wr"})),
    _Search("rw", frozenset({"ww", "wr", "rw"})),
    _Search("rw", frozenset({"ww", "wr", "rw"}), has_adjacent_reads=True),
    _Search("rt", frozenset({"ww", "wr", "rw", "rt"})),
    _Search("rt", frozenset({"ww", "wr", "rw", "rt"}), has_adjacent_reads=True),
)
"""From the strongest anomaly to the weakest; the same transactions are reported once."""


def _find_cycles(graph: _Graph) -> Iterator[Anomaly]:
    known: set[frozenset[str]] = set()
    for search in _SEARCHES:
        edges = graph.select(search.labels | {search.begins_with})
        for source, targets in edges.items():
            for target, label in targets:
                if label != search.begins_with:
                    continue
                path = _find_path(edges, source, target, search)
                if path is None or frozenset(name for name, _ in path) in known:
                    continue
                known.add(frozenset(name for name, _ in path))
                yield _describe_cycle(graph, path)


def _find_path(
    edges: Mapping[str, Sequence[tuple[str, str]]], source: str, target: str, search: _Search
) -> list[tuple[str, str]] | None:
    """Return the shortest cycle that begins with an edge, as transactions with the label of the edge to the next."""
    begin = (target, search.begins_with == "rw")
    before: dict[tuple[str, bool], tuple[tuple[str, bool], str] | None] = {begin: None}
    waiting = deque([begin])
    while waiting:
        state = waiting.popleft()
        name, was_read = state
        if name == source and (search.has_adjacent_reads or not (was_read and search.begins_with == "rw")):
            return [(source, search.begins_with), *_trace_back(before, state)]
        for following, label in edges.get(name, ()):
            is_read = label == "rw"
            reached = (following, is_read)
            if label not in search.labels or (is_read and was_read and not search.has_adjacent_reads):
                continue
            if reached not in before:
                before[reached] = state, label
                waiting.append(reached)
    return None


def _trace_back(
    before: Mapping[tuple[str, bool], tuple[tuple[str, bool], str] | None], state: tuple[str, bool]
) -> list[tuple[str, str]]:
    path: list[tuple[str, str]] = []
    step = before[state]
    while step is not None:
        state, label = step
        path.append((state[0], label))
        step = before[state]
    return path[::-1]


def _describe_cycle(graph: _Graph, path: Sequence[tuple[str, str]]) -> Anomaly:
    names = [name for name, _ in path]
    labels = [label for _, label in path]
    evidence = "; ".join(
        f"{name} -{label}-> {following} ({graph.edges[name][following][label]})"
        for (name, label), following in zip(path, [*names[1:], names[0]], strict=True)
    )
    reads = [
        (name, following)
        for (name, label), following in zip(path, [*names[1:], names[0]], strict=True)
        if label == "rw"
    ]
    found = _name_cycle(labels)
    if found is AnomalyName.G2_ITEM and not graph.items.issuperset(reads):
        found = AnomalyName.G2
    return Anomaly(found, tuple(names), evidence)


def _name_cycle(labels: Sequence[str]) -> AnomalyName:
    reads = labels.count("rw")
    is_adjacent = any(pair == ("rw", "rw") for pair in zip(labels, [*labels[1:], labels[0]], strict=True))
    if "rt" in labels:
        return AnomalyName.G2_ITEM_REAL_TIME if is_adjacent else AnomalyName.REAL_TIME
    if not reads:
        return AnomalyName.G1C if "wr" in labels else AnomalyName.G0
    if reads == 1:
        return AnomalyName.FRACTURED_READ if sorted(labels) == ["rw", "wr"] else AnomalyName.G_SINGLE
    return AnomalyName.G2_ITEM if is_adjacent else AnomalyName.LONG_FORK
