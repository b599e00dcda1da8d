"""Writer of a small lakehouse by an earlier state of the code, for the test that reads it.

    git archive COMMIT src | tar -x -C FOLDER
    PYTHONPATH=FOLDER/src python -P tests/compat/write_old_lakehouse.py LAYOUT ARCHIVE

An archive is `tests/compat/fixtures/old_lakehouses/COMMIT-LAYOUT.tar.xz`.

It uses what every state since the first archive has, and newer parts of the format where the
state has them. The archive contains the lakehouse and `expected.json`: the rows of each table in
each version, as that state read them.
"""

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import mangrove

__all__ = ["main", "read_versions"]


def main(layout: str, archive: str) -> None:
    """Write the lakehouse of a layout and its expected rows into an archive."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "lakehouse"
        lake = mangrove.create(str(place), layout=layout)
        _write_history(lake)
        if hasattr(lake, "access"):
            _write_newer_parts(lake, layout)
        expected = json.dumps(read_versions(lake), sort_keys=True).encode()
        with tarfile.open(archive, "w:xz", preset=9) as packed:
            described = tarfile.TarInfo("expected.json")
            described.size = len(expected)
            packed.addfile(described, io.BytesIO(expected))
            for path in sorted(place.rglob("*")):
                if path.is_file():
                    packed.add(path, str(path.relative_to(folder)), filter=_anonymize)


def _write_history(lake: Any) -> None:
    lake.create_namespace("shop")
    orders = lake.create_table("shop.orders", "id bigint not null, note string", keys=["id"])
    orders.append([{"id": number, "note": f"note {number}"} for number in range(5)])
    orders.upsert([{"id": 1, "note": "changed"}, {"id": 7, "note": "new"}])
    orders.delete("id = 2")
    with lake.transaction(message="two tables at once") as transaction:
        days = transaction.create_table("shop.days", "day int not null, amount double", partition_by=["day"])
        days.append([{"day": day, "amount": day / 2} for day in (1, 2, 3)])
        transaction.create_view("shop.recent", "select * from shop.days")
    lake.table("shop.days").delete("day = 2")
    lake.table("shop.days").rename("shop.by_day")
    lake.table("shop.by_day").append([{"day": 3, "amount": 9.5}])
    lake.table("shop.orders").compact()
    lake.rollback(lake.version - 1, message="undo the compaction")
    with lake.begin_shared("load") as shared:
        shared.table("shop.orders").append([{"id": 20, "note": "shared"}])
    lake.drop_view("shop.recent")
    lake.create_namespace("archive")


def _write_newer_parts(lake: Any, layout: str) -> None:
    """Write inline rows, a table version, an alias, a tag, access rules, and the properties of newer features."""
    lake.create_namespace("newer")
    inline = {"write.inline-rows-max-bytes": "100000"}
    table = lake.create_table("newer.inline", "id bigint not null, note string", keys=["id"], properties=inline)
    table.append([{"id": number, "note": f"inline {number}"} for number in range(3)])
    table.upsert([{"id": 1, "note": "changed"}])
    table.create_version(properties={}).append([{"id": 9, "note": "second version"}])
    third = lake.create_table("newer.third", "id bigint not null", properties={"format-version": "3"})
    third.append([{"id": number} for number in range(4)])
    third.delete("id = 2")
    lake.create_alias("newer.other", table.locator)
    lake.access.create_role("analyst")
    lake.access.grant("read", "newer.inline", "analyst")
    if not layout.startswith("tree-"):
        lake.alter({"transaction.intents": "true"})
    lake.tag("kept")


def read_versions(lake: Any) -> dict[str, dict[str, list[str]]]:
    """Return the rows of each table in each version, as text."""
    return {
        str(version): {
            name: sorted(repr(sorted(row.items())) for row in lake.at(version).table(name).to_arrow().to_pylist())
            for name in sorted(_list_tables(lake.at(version)))
        }
        for version in range(lake.version + 1)
    }


def _list_tables(snapshot: Any) -> list[str]:
    names = [space.name for space in snapshot.namespaces()]
    return [f"{name}.{table.name}" for name in names for table in snapshot.tables(name)]


def _anonymize(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(*sys.argv[1:])
