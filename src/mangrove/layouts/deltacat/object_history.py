"""The committed revisions of a single catalog object."""

from dataclasses import dataclass

from mangrove.layouts.deltacat.files import RevisionRef
from mangrove.layouts.deltacat.index import RevisionEntry
from mangrove.layouts.deltacat.paths import REVISION_FOLDER, NumberedFile, parse_numbered_path
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.staging import DELETE
from mangrove.model.locators import Locator
from mangrove.model.objects import Object

__all__ = ["ObjectRevision", "list_revisions"]


@dataclass(frozen=True, slots=True)
class ObjectRevision:
    """One revision of an object and its transaction; a delete has no value."""

    number: int
    operation: str
    transaction: str
    value: Object | None


def list_revisions(snapshot: DeltaCatSnapshot, locator: Locator) -> list[ObjectRevision]:
    """Return the revisions of an object up to that of a version, oldest first; empty if it does not exist.

    If several files have one number, the log determines which is committed. A single file
    needs no request.
    """
    requested = snapshot.locate_revision(locator)
    if requested is None:
        return []
    files = snapshot.files
    by_number: dict[int, list[NumberedFile]] = {}
    for entry in files.store.list(f"{requested.folder}/{REVISION_FOLDER}/"):
        file = parse_numbered_path(entry.path)
        if file.number <= requested.stored.number:
            by_number.setdefault(file.number, []).append(file)
    found: list[ObjectRevision] = []
    for number in sorted(by_number):
        concurrent_commits = by_number[number]
        if len(concurrent_commits) > 1 or number == requested.stored.number:
            concurrent_commits = [file for file in concurrent_commits if _is_committed(snapshot, requested, file)]
        for file in concurrent_commits:
            stored = RevisionEntry(file.number, file.operation, file.transaction)
            is_gone = file.operation == DELETE
            value = None if is_gone else files.bodies([RevisionRef(requested.kind, requested.folder, stored)])[0].value
            found.append(ObjectRevision(file.number, file.operation, file.transaction, value))
    return found


def _is_committed(snapshot: DeltaCatSnapshot, requested: RevisionRef, file: NumberedFile) -> bool:
    """Return whether a file is committed: the version itself lists the newest, the log the earlier ones."""
    if file.number == requested.stored.number:
        return file.transaction == requested.stored.transaction
    # The log of a transaction is a file, or a folder with one file whose name is the end.
    path = snapshot.files.revision.log_path(file.transaction, 0)
    folder = path.removesuffix("0") if path.endswith("/0") else path
    return any(True for _ in snapshot.files.store.list(folder))
