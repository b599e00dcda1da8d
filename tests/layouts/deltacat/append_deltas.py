"""Run as a process of its own: appends deltas to one partition of the catalog at a URI."""

import sys

from mangrove.effects import build_effects
from mangrove.layouts.deltacat.metastore import open_catalog
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import DeltaLocator, Kind, PartitionLocator
from mangrove.storage.opening import open_store
from mangrove.testing.metastore_contract import make_delta

PARTITION = PartitionLocator("n", "t", 1, "s", "p")

if __name__ == "__main__":
    uri, worker, count = sys.argv[1:]
    catalog = open_catalog(build_effects(open_store(uri)))
    for number in range(int(count)):
        base = catalog.latest()
        last = base.last_child(Kind.DELTA, PARTITION)
        position = last.position + 1 if isinstance(last, DeltaLocator) else 1
        delta = make_delta(PARTITION, position, writer=f"{worker}/{number}")
        guards = frozenset([PARTITION])
        changes = Changes(f"{worker}/{number}", puts=dict([delta]), guards=guards)
        catalog.commit(base, changes, Isolation.SERIALIZABLE)
