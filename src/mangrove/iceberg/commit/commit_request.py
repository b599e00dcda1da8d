"""Parsing of Iceberg commit requests, and their requirements and updates.

PyIceberg applies them, so that they mean here what they mean everywhere. What differs
afterwards is what we are asked to change. What has no place here is refused before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertRefSnapshotId,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetLocationUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.iceberg.commit.schema_evolution import assign_ids

__all__ = [
    "FORMAT_VERSION",
    "INVALID_REQUEST_ERRORS",
    "RequestedChanges",
    "TableCommitRequest",
    "build_new_metadata",
    "check_requirements",
    "parse_commit_request",
    "resolve_requested_changes",
]

FORMAT_VERSION: Final = 2
_NO_PLACE: Final = frozenset({"remove-partition-specs", "remove-schemas"})
_HINTS: Final = frozenset(
    {"set-statistics", "remove-statistics", "set-partition-statistics", "remove-partition-statistics"}
)
"""What no reader has to heed, as Iceberg says. Trino sends some with each insert, so they are taken and not kept."""
INVALID_REQUEST_ERRORS: Final = (
    ValidationError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    StopIteration,
)
"""What PyIceberg says of updates that cannot be applied, and of schemas that cannot be."""


@dataclass(frozen=True, slots=True)
class TableCommitRequest:
    """What a client asks of one table."""

    requirements: tuple[TableRequirement, ...] = ()
    updates: tuple[TableUpdate, ...] = ()

    @property
    def creates(self) -> bool:
        """Whether the table is to be made."""
        return any(isinstance(requirement, AssertCreate) for requirement in self.requirements)

    @property
    def replaces(self) -> bool:
        """Whether the table begins anew: clients say so by taking away the branch main."""
        return any(isinstance(one, RemoveSnapshotRefUpdate) and one.ref_name == MAIN_BRANCH for one in self.updates)

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """The ids of the snapshots that it adds, in order."""
        return tuple(one.snapshot.snapshot_id for one in self.updates if isinstance(one, AddSnapshotUpdate))


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """What a table is to be; None where it stays."""

    schema: IcebergSchema | None = None
    spec: PartitionSpec | None = None
    sort_order: SortOrder | None = None
    snapshot: Snapshot | None = None
    replaces: bool = False
    """Whether nothing stays of the rows that are there, nor of their columns: `CREATE OR REPLACE TABLE`."""
    put: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


def parse_commit_request(document: Mapping[str, Any]) -> TableCommitRequest:
    """Return the requirements and updates of a JSON object that a client sent."""
    requested = {name: document[name] for name in ("requirements", "updates") if name in document}
    try:
        # Which table is meant is said by the address or beside these, so any identifier does here.
        found = CommitTableRequest.model_validate({"identifier": {"namespace": ["any"], "name": "any"}, **requested})
    except INVALID_REQUEST_ERRORS as error:
        told = " ".join(line.strip() for line in str(error).splitlines()[1:3]) or str(error)
        raise InvalidInputError(f"the requirements and updates of the request cannot be read: {told}") from error
    return TableCommitRequest(found.requirements, tuple(one for one in found.updates if one.action not in _HINTS))


def check_requirements(request: TableCommitRequest, shown: TableMetadata | None) -> None:
    """Refuse a request that was made for another state than the one that is shown.

    What would be refused on any state is refused first: a client repeats what had a conflict.
    """
    _check_branches(request.updates)
    try:
        for requirement in request.requirements:
            requirement.validate(shown)
    except CommitFailedException as error:
        raise ConflictError(f"{error}: load the table again and repeat the change") from error
    if shown is None or request.replaces:
        return
    # Who asks for no state of the branch still means the one that its first snapshot stands on.
    asks = any(isinstance(one, AssertRefSnapshotId) and one.ref == MAIN_BRANCH for one in request.requirements)
    added = [one.snapshot for one in request.updates if isinstance(one, AddSnapshotUpdate)]
    if added and not asks and added[0].parent_snapshot_id != shown.current_snapshot_id:
        raise ConflictError(
            f"the snapshot {added[0].snapshot_id} follows {added[0].parent_snapshot_id}, and the table is at "
            f"{shown.current_snapshot_id}: load the table again and repeat the change"
        )


def resolve_requested_changes(shown: TableMetadata, request: TableCommitRequest) -> RequestedChanges:
    """Return how a table is to differ from what is shown; refuse what has no place here."""
    _check_updates(shown, request.updates)
    after = _apply_updates(shown, request.updates)
    snapshot_id = after.current_snapshot_id
    return RequestedChanges(
        schema=after.schema() if after.current_schema_id != shown.current_schema_id else None,
        spec=after.spec() if after.default_spec_id != shown.default_spec_id else None,
        sort_order=after.sort_order() if after.default_sort_order_id != shown.default_sort_order_id else None,
        snapshot=None if snapshot_id == shown.current_snapshot_id else after.current_snapshot(),
        replaces=request.replaces,
        put={name: text for name, text in after.properties.items() if shown.properties.get(name) != text},
        removed=tuple(sorted(shown.properties.keys() - after.properties.keys())),
    )


def build_new_metadata(updates: Sequence[TableUpdate]) -> TableMetadata:
    """Return what the updates that begin a table say of it."""
    _check_branches(updates)
    # Not validated: a table without columns, divided by nothing yet, is none before its updates are applied.
    empty = TableMetadataV1.model_construct(location="", last_column_id=-1, schema=IcebergSchema())
    return _apply_updates(empty, updates, is_new=True)


def _apply_updates(before: TableMetadata, updates: Sequence[TableUpdate], *, is_new: bool = False) -> TableMetadata:
    try:
        heeded = tuple(assign_ids(before, _select_effective_updates(before, updates)))
        return update_table_metadata(before, heeded, enforce_validation=is_new)
    except INVALID_REQUEST_ERRORS as error:
        raise InvalidInputError(f"the updates do not fit together ({error}): load the table and begin again") from error


def _select_effective_updates(before: TableMetadata, updates: Iterable[TableUpdate]) -> Iterable[TableUpdate]:
    """Yield the updates; to remove a property that is not there changes nothing."""
    there = set(before.properties)
    for update in updates:
        if isinstance(update, RemovePropertiesUpdate):
            yield RemovePropertiesUpdate(removals=[name for name in dict.fromkeys(update.removals) if name in there])
            there -= set(update.removals)
        else:
            there |= set(getattr(update, "updates", ()))
            yield update


def _check_updates(shown: TableMetadata, updates: Sequence[TableUpdate]) -> None:
    _check_branches(updates)
    for update in updates:
        match update:
            case SetLocationUpdate(location=location) if location.rstrip("/") != shown.location:
                raise InvalidInputError(f"the table lies at {shown.location} and stays there: leave {location!r} out")
            case AssignUUIDUpdate(uuid=given) if given != UUID(str(shown.table_uuid)):
                raise InvalidInputError(f"the table has the UUID {shown.table_uuid}, and that never changes")
            case _:
                pass


def _check_branches(updates: Sequence[TableUpdate]) -> None:
    """Refuse what asks for a history of its own: the lakehouse has one for all tables."""
    added = {one.snapshot.snapshot_id for one in updates if isinstance(one, AddSnapshotUpdate)}
    last = None
    for update in updates:
        match update:
            case SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id):
                if name != MAIN_BRANCH or kind != SnapshotRefType.BRANCH:
                    raise InvalidInputError(
                        f"{name!r} is a branch or a tag, and a table has the branch main alone: name a version with an "
                        "export, or work in a shared transaction"
                    )
                last = snapshot_id
            case RemoveSnapshotRefUpdate(ref_name=name) if name != MAIN_BRANCH:
                raise InvalidInputError(f"the branch {name!r} cannot be removed: a table has the branch main alone")
            case RemoveSnapshotsUpdate():
                raise InvalidInputError("snapshots are versions of the lakehouse: expire those with `mangrove expire`")
            case UpgradeFormatVersionUpdate(format_version=version) if version != FORMAT_VERSION:
                raise InvalidInputError(
                    f"tables are shown in format version {FORMAT_VERSION}, and {version} was asked for"
                )
            case _ if update.action in _NO_PLACE:
                raise InvalidInputError(f"{update.action} has no place here: leave it out")
            case _:
                pass
    if added and last is None:
        raise InvalidInputError(
            "a snapshot is added and no branch set to it: stage rows in a shared transaction instead"
        )
    if last is not None and last not in added:
        raise InvalidInputError(
            f"main is to be set to the snapshot {last}, which the commit does not add: go back with `mangrove rollback`"
        )
