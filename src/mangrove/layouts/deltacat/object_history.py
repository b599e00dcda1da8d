"""The history of one object: every revision of it that was committed, from the files that hold them."""

from dataclasses import dataclass

from mangrove.layouts.deltacat.draft import DELETE
from mangrove.layouts.deltacat.files import Wanted
from mangrove.layouts.deltacat.index import Stored
from mangrove.layouts.deltacat.paths import REVISION_FOLDER, NumberedFile, numbered_file
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.model.locators import Locator
from mangrove.model.objects import Object

__all__ = ["ObjectRevision", "revisions_of"]


@dataclass(frozen=True, slots=True)
class ObjectRevision:
    """One written state of an object, by which transaction; a delete has no value."""

    number: int
    operation: str
    transaction: str
    value: Object | None


def revisions_of(snapshot: CatalogSnapshot, locator: Locator) -> list[ObjectRevision]:
    """Return the revisions of an object up to the one that a version has, oldest first; none if it is not there.

    Of several files with one number the log says which was committed. Where there
    is one only, no request is spent on asking.
    """
    wanted = snapshot.wanted(locator)
    if wanted is None:
        return []
    files = snapshot.files
    by_number: dict[int, list[NumberedFile]] = {}
    for entry in files.store.list(f"{wanted.folder}/{REVISION_FOLDER}/"):
        file = numbered_file(entry.path)
        if file.number <= wanted.stored.number:
            by_number.setdefault(file.number, []).append(file)
    found: list[ObjectRevision] = []
    for number in sorted(by_number):
        rivals = by_number[number]
        if len(rivals) > 1 or number == wanted.stored.number:
            rivals = [file for file in rivals if _is_committed(snapshot, wanted, file)]
        for file in rivals:
            stored = Stored(file.number, file.operation, file.transaction)
            is_gone = file.operation == DELETE
            value = None if is_gone else files.bodies([Wanted(wanted.kind, wanted.folder, stored)])[0].value
            found.append(ObjectRevision(file.number, file.operation, file.transaction, value))
    return found


def _is_committed(snapshot: CatalogSnapshot, wanted: Wanted, file: NumberedFile) -> bool:
    """Return whether a file counts: the version itself says it of the newest, the log of those before."""
    if file.number == wanted.stored.number:
        return file.transaction == wanted.stored.transaction
    # The log of a transaction is a file, or a folder with one file whose name is the end.
    path = snapshot.files.revision.log_path(file.transaction, 0)
    folder = path.removesuffix("0") if path.endswith("/0") else path
    return any(True for _ in snapshot.files.store.list(folder))
