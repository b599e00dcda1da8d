"""Parsing of Iceberg commit requests, and their requirements and updates.

PyIceberg applies the updates to the published metadata; the difference is the requested
change. Unsupported updates are rejected first.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertRefSnapshotId,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetLocationUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)
from pyiceberg.transforms import VoidTransform

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.iceberg.commit.schema_evolution import assign_ids
from mangrove.tables.iceberg_names import FORMAT_VERSION

__all__ = [
    "FORMAT_VERSIONS",
    "INVALID_REQUEST_ERRORS",
    "RequestedChanges",
    "TableCommitRequest",
    "build_new_metadata",
    "check_requirements",
    "describe_invalid_request",
    "parse_commit_request",
    "resolve_requested_changes",
]

FORMAT_VERSIONS: Final = (2, 3)
_UNSUPPORTED: Final = frozenset({"remove-partition-specs", "remove-schemas"})
_HINTS: Final = frozenset({"set-partition-statistics", "remove-partition-statistics"})
"""Updates of partition statistics, which are accepted and discarded: manifests have the same statistics."""
_STANDARD_MESSAGES: Final = (
    (r"^Table UUID does not match: ", "Requirement failed: UUID does not match: expected "),
    (r"(last assigned .* id) has changed: expected (\S+), found ", r"\1 changed: expected id \2 != "),
    (r"current schema id has changed: expected (\S+), found ", r"current schema changed: expected id \1 != "),
    (r"default spec id has changed: expected (\S+), found ", r"default partition spec changed: expected id \1 != "),
    (r"default sort order id has changed: expected (\S+), found ", r"default sort order changed: expected id \1 != "),
    (r"has changed: expected id (\S+), found ", r"has changed: expected id \1 != "),
)
INVALID_REQUEST_ERRORS: Final = (
    ValidationError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    StopIteration,
)
"""Exceptions that PyIceberg raises for invalid updates and schemas."""


@dataclass(frozen=True, slots=True)
class TableCommitRequest:
    """The requirements and updates of one table in a commit request."""

    requirements: tuple[TableRequirement, ...] = ()
    updates: tuple[TableUpdate, ...] = ()

    @property
    def creates(self) -> bool:
        """Whether the request creates the table."""
        return any(isinstance(requirement, AssertCreate) for requirement in self.requirements)

    @property
    def replaces(self) -> bool:
        """Whether the request replaces the table, which clients express by removing the branch main."""
        return any(isinstance(one, RemoveSnapshotRefUpdate) and one.ref_name == MAIN_BRANCH for one in self.updates)

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """The ids of the added snapshots, in order."""
        return tuple(one.snapshot.snapshot_id for one in self.updates if isinstance(one, AddSnapshotUpdate))


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """The requested changes of a table; None for what is unchanged."""

    after: TableMetadata = field(compare=False)
    """The metadata with the changes, as the client sees it."""
    schema: IcebergSchema | None = None
    spec: PartitionSpec | None = None
    sort_order: SortOrder | None = None
    snapshot: Snapshot | None = None
    replaces: bool = False
    """Whether all rows and columns are replaced: `CREATE OR REPLACE TABLE`."""
    is_rollback: bool = False
    """Whether the snapshot is an earlier one, whose rows are restored."""
    put: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    tags: Mapping[str, SnapshotRef | None] = field(default_factory=dict)
    """The tags that are set, by name; None for those that are removed."""
    statistics: Sequence[StatisticsFile] | None = None


def parse_commit_request(document: Mapping[str, Any]) -> TableCommitRequest:
    """Return the requirements and updates of a client's JSON object."""
    requested = {name: document[name] for name in ("requirements", "updates") if name in document}
    try:
        # The table is identified by the path or by the caller, so any identifier will do here.
        parsed = CommitTableRequest.model_validate({"identifier": {"namespace": ["any"], "name": "any"}, **requested})
    except INVALID_REQUEST_ERRORS as error:
        reason = describe_invalid_request(error)
        raise InvalidInputError(f"invalid requirements or updates in the request: {reason}") from error
    return TableCommitRequest(parsed.requirements, tuple(one for one in parsed.updates if one.action not in _HINTS))


def describe_invalid_request(error: Exception) -> str:
    """Return the reason why a part of a request is invalid, with a remedy for types that PyIceberg does not have."""
    reason = " ".join(line.strip() for line in str(error).splitlines()[1:3]) or str(error)
    return f"{reason}; use string with JSON instead of variant" if "'variant'" in reason else reason


def check_requirements(request: TableCommitRequest, published: TableMetadata | None) -> None:
    """Raise ConflictError if the request was made for another state than the published one.

    Updates that are invalid in any state are rejected first, because clients retry conflicts.
    """
    _check_branches(request.updates, published)
    try:
        for requirement in request.requirements:
            requirement.validate(published)
    except CommitFailedException as error:
        raise ConflictError(f"{_to_standard_message(str(error))}; reload the table and retry") from error
    added = [one.snapshot for one in request.updates if isinstance(one, AddSnapshotUpdate)]
    if added and isinstance(published, TableMetadataV3) and (added[0].first_row_id or 0) < (published.next_row_id or 0):
        # The branch is the same again after a rollback, but row ids are not used again.
        raise ConflictError(
            f"snapshot {added[0].snapshot_id} has first row id {added[0].first_row_id}, but the next one is "
            f"{published.next_row_id}; reload the table and retry"
        )
    if published is None or request.replaces:
        return
    # A request without a requirement on the branch still depends on the parent of its first snapshot.
    has_requirement = any(
        isinstance(one, AssertRefSnapshotId) and one.ref == MAIN_BRANCH for one in request.requirements
    )
    if added and not has_requirement and added[0].parent_snapshot_id != published.current_snapshot_id:
        raise ConflictError(
            f"snapshot {added[0].snapshot_id} has parent {added[0].parent_snapshot_id}, but the current snapshot is "
            f"{published.current_snapshot_id}; reload the table and retry"
        )


def _to_standard_message(message: str) -> str:
    """Return PyIceberg's message about a requirement as Iceberg's Java library words it, which clients compare.

    >>> _to_standard_message("Requirement failed: current schema id has changed: expected 0, found 1")
    'Requirement failed: current schema changed: expected id 0 != 1'
    >>> _to_standard_message("Table UUID does not match: a != b")
    'Requirement failed: UUID does not match: expected a != b'
    """
    for pattern, standard in _STANDARD_MESSAGES:
        message = re.sub(pattern, standard, message)
    return message


def resolve_requested_changes(published: TableMetadata, request: TableCommitRequest) -> RequestedChanges:
    """Return the changes that a request makes to the published metadata; raise InvalidInputError if unsupported."""
    _check_updates(published, request.updates)
    after = _apply_updates(published, [one for one in request.updates if not isinstance(one, SetLocationUpdate)])
    _check_source_columns(published, after)
    snapshot_id = after.current_snapshot_id
    removed_refs = {one.ref_name for one in request.updates if isinstance(one, RemoveSnapshotRefUpdate)}
    put = {name: text for name, text in after.properties.items() if published.properties.get(name) != text}
    if after.format_version != published.format_version:
        put[FORMAT_VERSION] = str(after.format_version)
    return RequestedChanges(
        after,
        schema=after.schema() if after.current_schema_id != published.current_schema_id else None,
        spec=after.spec() if after.default_spec_id != published.default_spec_id else None,
        sort_order=after.sort_order() if after.default_sort_order_id != published.default_sort_order_id else None,
        snapshot=None if snapshot_id == published.current_snapshot_id else after.current_snapshot(),
        replaces=request.replaces,
        is_rollback=snapshot_id != published.current_snapshot_id
        and any(one.snapshot_id == snapshot_id for one in published.snapshots),
        put=put,
        statistics=after.statistics if after.statistics != published.statistics else None,
        removed=tuple(sorted(published.properties.keys() - after.properties.keys())),
        tags={
            name: after.refs.get(name)
            # A removed tag may be one that is not listed.
            for name in sorted(published.refs.keys() | after.refs.keys() | removed_refs)
            if name != MAIN_BRANCH and (after.refs.get(name) != published.refs.get(name) or name in removed_refs)
        },
    )


def _check_source_columns(published: TableMetadata, after: TableMetadata) -> None:
    """Raise InvalidInputError for a new partition spec or sort order, used or not, of a column that no schema has."""
    new: list[PartitionSpec | SortOrder] = [
        *(one for one in after.partition_specs if one not in published.partition_specs),
        *(one for one in after.sort_orders if one not in published.sort_orders),
    ]
    for one in new:
        for part in one.fields:
            is_known = any(schema.find_column_name(part.source_id) for schema in after.schemas)
            if not is_known and not isinstance(part.transform, VoidTransform):
                raise InvalidInputError(f"Cannot find source column {part.source_id} of {part}; reload the table")


def build_new_metadata(updates: Sequence[TableUpdate]) -> TableMetadata:
    """Return the metadata that the updates of a create request describe."""
    _check_branches(updates)
    # Not validated: metadata without columns and specs is invalid until the updates are applied.
    empty = TableMetadataV1.model_construct(location="", last_column_id=-1, schema=IcebergSchema())
    return _apply_updates(empty, updates, is_new=True)


def _apply_updates(before: TableMetadata, updates: Sequence[TableUpdate], *, is_new: bool = False) -> TableMetadata:
    upgraded, others = _apply_upgrade(before, updates)
    try:
        effective = tuple(assign_ids(upgraded, _select_effective_updates(upgraded, others)))
        return update_table_metadata(upgraded, effective, enforce_validation=is_new)
    except INVALID_REQUEST_ERRORS as error:
        raise InvalidInputError(f"the updates are inconsistent ({error}); reload the table and retry") from error


def _apply_upgrade(before: TableMetadata, updates: Sequence[TableUpdate]) -> tuple[TableMetadata, list[TableUpdate]]:
    """Return the metadata in format version 3 if requested, which PyIceberg refuses, and the other updates."""
    others = [one for one in updates if not isinstance(one, UpgradeFormatVersionUpdate) or one.format_version < 3]
    if len(others) == len(updates):
        return before, others
    return TableMetadataV3.model_construct(**{"next_row_id": 0, **dict(before), "format_version": 3}), others


def _select_effective_updates(before: TableMetadata, updates: Iterable[TableUpdate]) -> Iterable[TableUpdate]:
    """Yield the updates without removals of properties and statistics that do not exist."""
    existing = set(before.properties)
    with_statistics = {one.snapshot_id for one in before.statistics}
    for update in updates:
        if isinstance(update, SetStatisticsUpdate):
            with_statistics.add(update.statistics.snapshot_id)
        if isinstance(update, RemoveStatisticsUpdate) and update.snapshot_id not in with_statistics:
            continue
        if isinstance(update, RemovePropertiesUpdate):
            yield RemovePropertiesUpdate(removals=[name for name in dict.fromkeys(update.removals) if name in existing])
            existing -= set(update.removals)
        else:
            existing |= set(getattr(update, "updates", ()))
            yield update


def _check_updates(published: TableMetadata, updates: Sequence[TableUpdate]) -> None:
    """Raise InvalidInputError for unsupported updates; a location that comes with others is overridden.

    Raise ConflictError for a snapshot that was made when the table had fewer.
    """
    _check_branches(updates, published)
    last_sequence_number = 0 if isinstance(published, TableMetadataV1) else published.last_sequence_number
    for update in updates:
        match update:
            case SetLocationUpdate(location=location) if (
                location.rstrip("/") != published.location and len(updates) == 1
            ):
                raise InvalidInputError(
                    f"the table location {published.location} cannot be changed to {location!r}; remove set-location"
                )
            case AssignUUIDUpdate(uuid=given) if given != UUID(str(published.table_uuid)):
                raise InvalidInputError(f"the table UUID {published.table_uuid} cannot be changed; remove assign-uuid")
            case AddSnapshotUpdate(snapshot=added) if (added.sequence_number or 0) <= last_sequence_number > 0:
                raise ConflictError(
                    f"the snapshot has sequence number {added.sequence_number}, and the table's last one is "
                    f"{last_sequence_number}; reload the table and retry"
                )
            case _:
                pass


def _check_branches(updates: Sequence[TableUpdate], published: TableMetadata | None = None) -> None:
    """Raise InvalidInputError for other branches and expiry: all tables share the lakehouse's history.

    A request may set the branch to a listed snapshot, which restores its rows, and tags to listed snapshots.
    """
    listed = set() if published is None else {one.snapshot_id for one in published.snapshots}
    added = {one.snapshot.snapshot_id for one in updates if isinstance(one, AddSnapshotUpdate)}
    last = None
    for update in updates:
        match update:
            case SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id):
                if (name == MAIN_BRANCH) != (kind == SnapshotRefType.BRANCH):
                    raise InvalidInputError(
                        f"unsupported {kind} {name!r}; a table has only the branch main and tags. Stage changes with a "
                        "shared transaction"
                    )
                if not name:
                    raise InvalidInputError("a tag needs a name; set ref-name")
                if name == MAIN_BRANCH:
                    last = snapshot_id
                elif snapshot_id in added:
                    raise InvalidInputError(
                        f"tag {name!r} is set to snapshot {snapshot_id}, which the same request adds; commit the "
                        "snapshot first and then the tag"
                    )
                elif snapshot_id not in listed:
                    raise InvalidInputError(f"Cannot set {name} to unknown snapshot: {snapshot_id}")
            case RemoveSnapshotsUpdate():
                raise InvalidInputError("snapshots cannot be removed; expire versions with `mangrove expire`")
            case UpgradeFormatVersionUpdate(format_version=version) if version not in FORMAT_VERSIONS:
                raise InvalidInputError(f"unsupported Iceberg format version {version}; expected 2 or 3")
            case _ if update.action in _UNSUPPORTED:
                raise InvalidInputError(f"unsupported update {update.action}; remove it")
            case _:
                pass
    if added and last is None:
        raise InvalidInputError(
            "a snapshot is added, but no branch is set to it; use a shared transaction to stage changes"
        )
    is_replaced = any(isinstance(one, RemoveSnapshotRefUpdate) and one.ref_name == MAIN_BRANCH for one in updates)
    if last is not None and last not in added and (added or is_replaced or last not in listed):
        raise InvalidInputError(
            f"Cannot set main to unknown snapshot: {last}; expected the snapshot that the commit adds, or a listed one "
            "if it adds none"
        )
