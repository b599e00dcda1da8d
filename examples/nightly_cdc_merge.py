"""Apply the changes of a source database to a table, night by night, each exactly once.

    python examples/nightly_cdc_merge.py [FOLDER]

The source writes one file of JSON lines a night: what was inserted, updated and
deleted, in order. A night is applied as one version. A night that is applied
again, because the job was restarted or the file came twice, changes nothing: the
number of the batch is committed together with its rows.
"""

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mangrove
from mangrove.lakehouse.transaction import Transaction

NIGHTS = [
    [
        {"operation": "insert", "id": 1, "name": "ana", "city": "Lisbon"},
        {"operation": "insert", "id": 2, "name": "ben", "city": "Oslo"},
        {"operation": "insert", "id": 3, "name": "cleo", "city": "Quito"},
    ],
    [
        {"operation": "update", "id": 2, "name": "ben", "city": "Hanoi"},
        {"operation": "update", "id": 2, "name": "ben", "city": "Lima"},
        {"operation": "insert", "id": 4, "name": "dora", "city": "Oslo"},
        {"operation": "delete", "id": 3},
    ],
]


def write_feed(folder: Path) -> list[Path]:
    """Play the source: write one file a night."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for night, changes in enumerate(NIGHTS):
        file = folder / f"customers-{night:04d}.jsonl"
        file.write_text("".join(json.dumps(change) + "\n" for change in changes), "utf-8")
        files.append(file)
    return files


def last_of_each(changes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the last change of each row: what came before it in the same night nobody needs to see."""
    return list({change["id"]: change for change in changes}.values())


def apply(txn: Transaction, changes: list[Mapping[str, Any]]) -> None:
    """Put new rows in the place of old ones, and delete what is gone; neither looks at what is there."""
    customers = txn.table("crm.customers")
    kept = [change for change in changes if change["operation"] != "delete"]
    gone = [{"id": change["id"]} for change in changes if change["operation"] == "delete"]
    if kept:
        customers.upsert([{name: change[name] for name in ("id", "name", "city")} for change in kept])
    if gone:
        customers.delete_keys(gone)


def main(folder: Path) -> None:
    """Apply two nights, one of them twice."""
    lake = mangrove.create(folder / "lake")
    lake.create_namespace("crm")
    customers = lake.create_table("crm.customers", "id bigint not null, name string, city string", keys=["id"])
    files = write_feed(folder / "feed")
    for file in [*files, files[-1]]:
        night = int(file.stem.rpartition("-")[2])
        changes = last_of_each(map(json.loads, file.read_text("utf-8").splitlines()))
        was_needed = lake.run_once("customers-cdc", night, partial(apply, changes=changes))
        print(f"{file.name}: {f'applied {len(changes)} changes' if was_needed else 'was applied already'}")
    before = lake.version - 1
    print("customers now:")
    for row in customers.to_arrow().sort_by("id").to_pylist():
        print(f"  {row}")
    print("what the last night changed:")
    for row in customers.changes(from_version=before).sort_by("id").to_pylist():
        print(f"  {row}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
