"""What a small commit costs beyond the durable write of the files that it makes, and whether history slows it.

    python benchmarks/commit_floor.py [FOLDER] [HISTORY]

A recording store takes down which bytes each commit writes; the same files are
then written by hand with the same system calls, in turns with the commits, so a
busy disk slows both. The goals: at most 5 × the floor, and after HISTORY
(10,000) commits at most 1.2 × of what the first ones took.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from mangrove.effects import build_effects
from mangrove.layouts.tree.metastore import create_tree
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import NamespaceLocator, TableLocator
from mangrove.model.objects import NamespaceEntry, TableEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.local import LocalStore
from mangrove.storage.uri import parse_root_uri

MEASURED = 300


class RecordingStore(LocalStore):
    """A local store that keeps what the last commit wrote, the hint left out."""

    written: dict[str, bytes]

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        self.written |= objects
        super().put_many(objects)

    def put(self, path: str, data: bytes) -> None:
        if not path.startswith("_latest_hint"):
            self.written[path] = data
        super().put(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self.written[path] = data
        return super().create(path, data)


def write_by_hand(root: Path, number: int, files: Mapping[str, bytes]) -> None:
    """Write the files durably and exclusively, into folders that are there already."""
    for path, data in files.items():
        folder, name = os.path.split(root / path)
        folder_descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o666, dir_fd=folder_descriptor)
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.link(f"/proc/self/fd/{descriptor}", f"{name}-{number}", dst_dir_fd=folder_descriptor, follow_symlinks=True)
        os.close(descriptor)
        os.fsync(folder_descriptor)
        os.close(folder_descriptor)


def main() -> None:
    base = sys.argv[1] if len(sys.argv) > 1 else None
    history = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    for inline in (True, False):
        folder = Path(tempfile.mkdtemp(prefix="mangrove-commits-", dir=base))
        try:
            measure(folder, history, inline=inline)
        finally:
            shutil.rmtree(folder)


def measure(folder: Path, history: int, *, inline: bool) -> None:
    lake, by_hand = folder / "lake", folder / "hand"
    for place in (lake, by_hand):
        place.mkdir()
    store = RecordingStore(parse_root_uri(str(lake)))
    store.written = {}
    properties = {} if inline else {"tree.inline-definition-max-bytes": "0"}
    metastore = create_tree(build_effects(store), LakehouseSettings(properties=properties), Changes("made"))
    home = NamespaceEntry(str(uuid.uuid4()), "sales")
    changes = Changes("home", puts={NamespaceLocator("sales"): home})
    snapshot = metastore.commit(metastore.latest(), changes, Isolation.SNAPSHOT).snapshot
    early: tuple[float, float] = (0, 0)
    ours, floor = [], []
    for number in range(history):
        store.written = {}
        way = TableLocator("sales", f"t{number % 1000:04d}")
        value = TableEntry(str(uuid.uuid4()), home.id, way.name)
        began = time.perf_counter()
        done = metastore.commit(snapshot, Changes(str(uuid.uuid4()), puts={way: value}), Isolation.SNAPSHOT)
        if number < 10 + MEASURED or number >= history - MEASURED:
            ours.append(time.perf_counter() - began)
            for path in store.written:
                (by_hand / path).parent.mkdir(parents=True, exist_ok=True)
            began = time.perf_counter()
            write_by_hand(by_hand, number, store.written)
            floor.append(time.perf_counter() - began)
        snapshot = done.snapshot
        if number == 9 + MEASURED:
            early = statistics.median(ours[10:]), statistics.median(floor[10:])
            ours, floor = [], []
    late = statistics.median(ours), statistics.median(floor)
    print(f"\nsmall definitions {'inside the pointer' if inline else 'in files of their own'}, medians in µs")
    print(f"{'after commits':>14} {'commit':>8} {'floor':>8} {'ratio':>6}")
    for label, (mine, least) in ((10, early), (history, late)):
        print(f"{label:>14} {mine * 1e6:>8.0f} {least * 1e6:>8.0f} {mine / least:>6.2f}")
    print(f"late to early: {late[0] / early[0]:.2f}")


if __name__ == "__main__":
    main()
