"""A process that crashes at any request leaves the lakehouse as it was before its operation, or as after it."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import pytest
from tests.simulation.bank import (
    NAMESPACE,
    Activate,
    AddAlias,
    Annotate,
    BankOperation,
    Batch,
    Convert,
    Create,
    Deposit,
    Discard,
    Drop,
    DropAlias,
    DropTag,
    Export,
    IcebergAppend,
    Increment,
    Publish,
    PublishIceberg,
    Rename,
    RollBack,
    RollBackTable,
    Stage,
    Sweep,
    Tag,
    Transfer,
    Undo,
    Withdraw,
)
from tests.simulation.bank_workload import NOTE, SCHEMA, BankWorkload
from tests.simulation.row_statements import (
    AddColumn,
    Compact,
    DeleteWhere,
    DropColumn,
    Insert,
    MergeRows,
    Overwrite,
    OverwritePartitions,
    RenameColumn,
    ReplaceStream,
    UpdateWhere,
)
from tests.simulation.writers import Attempt

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import SimulatedCrash
from mangrove.wiring import LakehouseEngines

_CHANGES: Final = ("put", "put_many", "create", "delete_many")
_BEGIN_MILLIS: Final = 1_800_000_000_000
_GIRO, _SAVINGS = "bank.giro", "bank.savings"
_OPERATIONS: Final[tuple[BankOperation, ...]] = (
    Deposit({_GIRO: {1: 5, 7: 7}, _SAVINGS: {2: 6}}),
    Withdraw(_GIRO, (1,)),
    Transfer(_GIRO, _SAVINGS, 1),
    Increment(_GIRO, 1, by_sql=True),
    Insert(_GIRO, 99, 1),
    DeleteWhere(_GIRO, 15),
    UpdateWhere(_SAVINGS, 15),
    MergeRows(_SAVINGS, {1: 4, 8: 8}),
    Overwrite(_GIRO, {4: 4}),
    OverwritePartitions(_SAVINGS, {1: 9}),
    ReplaceStream(_GIRO, {3: 3}),
    Compact(_SAVINGS),
    AddColumn(_GIRO, "reason"),
    RenameColumn(_GIRO, "note", "origin"),
    DropColumn(_GIRO, "note"),
    Create("bank.extra"),
    Drop(_SAVINGS),
    Rename(_SAVINGS, "bank.spare"),
    AddAlias(_GIRO, "bank.vault"),
    DropAlias("bank.cash"),
    Stage(_SAVINGS, {5: 5}),
    Activate(_GIRO),
    Discard(_GIRO),
    Annotate(_GIRO, "new"),
    RollBack(2),
    RollBackTable(_GIRO, 2),
    Undo(0),
    Batch(_GIRO, {6: 6}),
    Publish(_GIRO, {6: 6}),
    Tag(),
    DropTag(),
    Export(),
    Convert("deltacat"),
    Convert("tree"),
    PublishIceberg(_GIRO),
    IcebergAppend(_SAVINGS, 50, 5),
    Sweep(),
)


class CrashingStore:
    """A store whose process crashes at its n-th request, before or after the effect."""

    def __init__(self, store: MemoryStore, at: int | None = None, *, with_effect: bool = False) -> None:
        self._store = store
        self._at = at
        self._with_effect = with_effect
        self.requests: list[str] = []

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI."""
        return self._store.identity

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def request(*arguments: Any, **options: Any) -> Any:
            if self._at is not None and len(self.requests) > self._at:
                raise SimulatedCrash("after the crash")
            self.requests.append(name)
            is_last = len(self.requests) - 1 == self._at
            if is_last and not self._with_effect:
                raise SimulatedCrash(name)
            done = method(*arguments, **options)
            if is_last:
                raise SimulatedCrash(name)
            return iter([*done]) if isinstance(done, Iterator) else done

        return request


def open_lake(store: Any, first_id: int) -> Lakehouse:
    clock = Clock(_BEGIN_MILLIS + 9 * 86_400_000)
    return open_on_store(build_deterministic_effects(store, clock, first_id), engines=LakehouseEngines)


@cache
def prepare(layout: str) -> MemoryStore:
    """Return the store of a lakehouse with something of all that the operations need, of which versions are old."""
    clock = Clock(_BEGIN_MILLIS)
    store = MemoryStore("memory://crash/", clock.read)
    effects = build_deterministic_effects(store, clock)
    lake = create_on_store(effects, layout=layout, settings=LakehouseSettings(order=4), engines=LakehouseEngines)
    lake.create_namespace(NAMESPACE)
    giro = lake.create_table(_GIRO, f"{SCHEMA}, note string", keys=["key"])
    savings = lake.create_table(_SAVINGS, SCHEMA, keys=["key"], partition_by=["branch"])
    giro.create_version(properties={})
    lake.create_alias("bank.cash", giro.locator)
    lake.tag("kept")
    for value in (10, 20):
        giro.upsert([{"key": key, "branch": key % 3, "value": value} for key in (1, 2)])
        savings.upsert([{"key": key, "branch": key % 3, "value": value} for key in (1, 2)])
    return store


def copy_store(store: MemoryStore) -> MemoryStore:
    copied = MemoryStore(store.uri, lambda: _BEGIN_MILLIS + 9 * 86_400_000)
    copied._objects = dict(store._objects)
    return copied


def read_state(lake: Lakehouse) -> object:
    """Return all that the operations can change."""
    return (
        {
            str(table): {
                one.version: (
                    one.is_default,
                    one.properties.get(NOTE),
                    str(table.version(one.version).schema),
                    sorted(map(repr, table.version(one.version).to_arrow().to_pylist())),
                )
                for one in table.versions()
            }
            for table in lake.tables(NAMESPACE)
        },
        sorted((alias.name, alias.target) for alias in lake.aliases()),
        sorted(tag.name for tag in lake.tags()),
        [query.query for query in lake.queries()],
        lake.shared_transactions(),
    )


def run(store: Any, operation: BankOperation) -> None:
    workload = BankWorkload(clock=Clock(_BEGIN_MILLIS + 9 * 86_400_000, 0))
    # The last version wrote rows only, so that an undo reverts it.
    workload.deeds["upsert into bank.savings"] = Deposit({})
    workload.execute(open_lake(store, 10**6), Attempt("the-operation", operation))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@pytest.mark.parametrize("operation", _OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_after_a_crash_at_any_request_the_operation_is_done_or_not(layout: str, operation: BankOperation) -> None:
    prepared = prepare(layout)
    complete = copy_store(prepared)
    counting = CrashingStore(complete)
    run(counting, operation)
    checked: dict[str, Any] | None = None
    allowed = [read_state(open_lake(one, 10**9)) for one in (copy_store(prepared), complete)]
    for at, name in enumerate(counting.requests):
        for with_effect in (False, True) if name in _CHANGES else (False,):
            store = copy_store(prepared)
            with pytest.raises(SimulatedCrash):
                run(CrashingStore(store, at, with_effect=with_effect), operation)
            # A request that only reads leaves the files that the crash before left.
            if store._objects == checked:
                continue
            checked = dict(store._objects)
            lake = open_lake(store, 10**9)
            # Bookkeeping of a shared transaction is a version of its own.
            state = read_state(lake)
            assert state in allowed or isinstance(operation, Publish), (at, name, with_effect)
            assert lake.maintenance.check(repair=True).problems == (), (at, name, with_effect)
            assert lake.table(_GIRO).append([{"key": 10**6, "branch": 1, "value": 1}]).inserted == 1
