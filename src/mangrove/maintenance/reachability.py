"""The files that live versions reference.

Versions share most files, so the first is walked in full, and each later one by its
differences.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import unquote

from mangrove.maintenance.context import MaintenanceContext
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.locators import Kind
from mangrove.model.objects import Delta, Object, TableEntry
from mangrove.tables.iceberg_names import list_statistics_paths

__all__ = ["resolve_paths", "scan_changed_objects", "visit_reachable_files"]

_SAME_STORE = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's URI schemes of the same bucket."""


def visit_reachable_files(
    lake: MaintenanceContext,
    snapshots: Iterable[MetastoreSnapshot],
    visit: Callable[[str], object],
    *,
    with_iceberg: bool = False,
) -> frozenset[str]:
    """Call `visit` with the path of each file that the versions reference, some more than once.

    Return the folders of external tables below the lakehouse root: their files are not
    managed. Versions are visited one by one, and no list of files is built. `with_iceberg`
    includes files that only Iceberg clients read: statistics files, and the locations of inline
    rows, where a publication writes files.
    """
    folders: set[str] = set()

    def passing() -> Iterator[MetastoreSnapshot]:
        before: MetastoreSnapshot | None = None
        for snapshot in snapshots:
            for value in scan_changed_objects(lake, before, snapshot, (Kind.TABLE, Kind.DELTA)):
                if isinstance(value, Delta):
                    for file in value.manifest.entries if with_iceberg else value.manifest.stored_files:
                        for path in resolve_paths(file.location, lake.store.uri):
                            visit(path)
                elif isinstance(value, TableEntry):
                    if value.location is not None:
                        folders.update(f"{path.rstrip('/')}/" for path in resolve_paths(value.location, lake.store.uri))
                    for path in list_statistics_paths(value.properties) if with_iceberg else ():
                        visit(path)
            before = snapshot
            yield snapshot

    for path in lake.maintenance.files_of(passing()):
        visit(path)
    return frozenset(folders)


def scan_changed_objects(
    lake: MaintenanceContext, before: MetastoreSnapshot | None, snapshot: MetastoreSnapshot, kinds: Sequence[Kind]
) -> Iterator[Object]:
    """Yield the objects of some kinds that differ from the previous version."""
    if before is None:
        for kind in kinds:
            for _, value in lake.maintenance.objects(snapshot, kind):
                yield value
        return
    for difference in lake.maintenance.differences(before, snapshot):
        if difference.after is not None and difference.locator.kind in kinds:
            yield difference.after


def resolve_paths(location: str, root_uri: str) -> list[str]:
    """Return the paths below the root that a location can mean; empty if it is outside.

    URIs of other programs may be escaped or not, so both variants are returned.

    >>> resolve_paths("data/a.parquet", "s3://bucket/lake/")
    ['data/a.parquet']
    >>> resolve_paths("s3a://bucket/lake/data/a%20b.parquet", "s3://bucket/lake/")
    ['data/a%20b.parquet', 'data/a b.parquet']
    >>> resolve_paths("s3://elsewhere/a.parquet", "s3://bucket/lake/")
    []
    """
    scheme, separator, rest = location.partition("://")
    if not separator:
        return [location]
    uri = f"{_SAME_STORE.get(scheme, scheme)}://{rest}"
    for root in {root_uri: None, unquote(root_uri): None}:
        if uri.startswith(root) and len(uri) > len(root):
            below = uri[len(root) :]
            return list(dict.fromkeys([below, unquote(below)]))
    return []
