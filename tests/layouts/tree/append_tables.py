"""Run as a process of its own: commits so many tables to the lakehouse at a URI, one by one."""

import sys

from mangrove.effects import build_effects
from mangrove.layouts.tree.metastore import open_tree
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import Locator, NamespaceLocator
from mangrove.model.objects import Object
from mangrove.storage.opening import open_store
from mangrove.testing.metastore_contract import make_table

if __name__ == "__main__":
    uri, worker, count = sys.argv[1:]
    metastore = open_tree(build_effects(open_store(uri)))
    for number in range(int(count)):
        puts: dict[Locator, Object] = dict([make_table("sales", f"w{worker}-{number:03d}")])
        guards = frozenset([NamespaceLocator("sales")])
        changes = Changes(f"{worker}/{number}", puts=puts, guards=guards)
        metastore.commit(metastore.latest(), changes, Isolation.SERIALIZABLE)
