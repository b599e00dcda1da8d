"""Appends rows on a cluster and kills its own process at the create that commits them, before or after it.

python -m tests.spark.scripts.dying_driver LAKE MASTER before|after
"""

import os
import signal
import sys
from unittest.mock import patch

from tests.spark.scripts.cluster_write import PARTITIONS, ROWS, connect

import mangrove
from mangrove.storage.local import LocalStore


def main(uri: str, master: str, moment: str) -> None:
    """Append rows to the table with the name of the moment."""
    lake = mangrove.open(uri)
    rows = connect(master).range(0, ROWS, 1, PARTITIONS).selectExpr("id", "id % 7 as v")
    create = LocalStore.create

    def create_and_die(store: LocalStore, path: str, data: bytes) -> bool:
        is_created = create(store, path, data) if moment == "after" else True
        os.kill(os.getpid(), signal.SIGKILL)
        return is_created

    with patch.object(LocalStore, "create", create_and_die):
        lake.table(f"s.{moment}").append(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
