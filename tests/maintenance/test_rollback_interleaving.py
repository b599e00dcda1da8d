"""Whatever expires and is deleted in the middle of a rollback or an undo, no version misses a file."""

from collections.abc import Callable

import pytest
from tests.maintenance.test_maintenance_machine import HookedStore

from mangrove.errors import ConflictError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.maintenance.expiry import expire_versions
from mangrove.maintenance.vacuum import vacuum_files
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.transaction.transaction import youngest_expirable_millis

LIMIT_MILLIS = 1_000
AGE_MILLIS = 1_000_000
REQUESTS_MAX = 60
TARGET = 4


class Bucket:
    """A lakehouse whose old versions may all go, and a table of which the newest version has nothing left."""

    def __init__(self, layout: str, *, drops_table: bool = True) -> None:
        self.clock = Clock()
        self.store = HookedStore("memory://bucket/", self.clock)
        self.openings = 0
        lake = create_on_store(build_deterministic_effects(self.store, self.clock), layout=layout)
        lake.alter({"transaction.time-limit-millis": str(LIMIT_MILLIS)}, maximum_version_age_millis=AGE_MILLIS)
        lake.create_namespace("n")
        lake.create_table("n.t", "id int")
        with lake.transaction() as transaction:
            transaction.add_delta("n.t", (), self.delta("one"))
        assert lake.version == TARGET
        with lake.transaction() as transaction:
            table = transaction.table("n.t")
            if drops_table:
                table.drop()
            else:
                table.create_version("id int", state="active")
                table.drop_version(1)
        for number in range(4):
            lake.create_namespace(f"later{number}")
        self.safe_millis = youngest_expirable_millis(lake.settings)
        self.clock.now_millis += 10 * AGE_MILLIS
        lake.create_namespace("newest")

    def delta(self, name: str) -> Delta:
        self.store.put(f"data/{name}.parquet", b"rows")
        return Delta(DeltaType.APPEND, Manifest((DataFile(f"data/{name}.parquet", 4, 1),)))

    def open(self) -> Lakehouse:
        self.openings += 1
        effects = build_deterministic_effects(self.store, self.clock, first_id=10**6 * self.openings)
        return without_engine(open_on_store(effects))

    def clean_up(self, wait_millis: int = 0) -> None:
        """Forget and delete all that may go."""
        self.clock.now_millis += wait_millis
        expire_versions(self.open().maintenance.context())
        vacuum_files(self.open().maintenance.context(), grace_millis=self.safe_millis)


def without_engine(lake: Lakehouse) -> Lakehouse:
    """Return the lakehouse without what reads rows: the data files of these tests hold none."""
    lake.engines = None
    return lake


CHANGES: dict[str, Callable[[Lakehouse], object]] = {
    "rollback": lambda lake: lake.rollback(to=TARGET),
    "undo": lambda lake: lake.undo(TARGET + 1),
    "table rollback": lambda lake: lake.table("n.t").rollback(to=TARGET),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("wait_millis", [0, 5 * LIMIT_MILLIS])
@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_a_rollback_or_undo_interleaved_with_expiry_and_vacuum_is_complete_or_rejected(
    layout: str, wait_millis: int, change: str
) -> None:
    outcomes: set[str] = set()
    for requests in range(1, REQUESTS_MAX):
        bucket = Bucket(layout, drops_table=change != "table rollback")
        lake = bucket.open()
        cleaned: list[int] = []

        def clean_up(bucket: Bucket = bucket, cleaned: list[int] = cleaned) -> None:
            cleaned.append(1)
            bucket.clean_up(wait_millis)

        bucket.store.interrupt(requests, clean_up)
        try:
            CHANGES[change](lake)
            outcomes.add("done")
            assert [len(table.deltas()) for table in bucket.open().tables("n")] == [1]
        except (NotFoundError, ConflictError):
            outcomes.add("refused")
        bucket.store.settle()
        assert not bucket.open().maintenance.check().problems
        bucket.clean_up(20 * AGE_MILLIS)
        assert not bucket.open().maintenance.check().problems
        if not cleaned:
            break
    else:
        pytest.fail(f"more than {REQUESTS_MAX} requests were made: interrupt all of them")
    assert outcomes == {"done", "refused"}


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_files_of_an_expired_version_are_deleted_after_the_safety_period(layout: str) -> None:
    bucket = Bucket(layout)
    bucket.clean_up()
    assert bucket.store.exists("data/one.parquet")
    with pytest.raises(NotFoundError):
        bucket.open().at(TARGET)
    bucket.clean_up(bucket.safe_millis)
    assert not bucket.store.exists("data/one.parquet")
    assert not bucket.open().maintenance.check().problems
