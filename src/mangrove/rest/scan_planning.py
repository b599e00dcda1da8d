"""REST handlers that plan scans on the server.

A plan is complete in the first response. The server keeps no state: plan ids and plan tasks contain
the scan itself, so that any process of the server answers them, also after a restart.

A plan task is a range of the files of a snapshot, which are pruned again when it is fetched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, cast

from pyiceberg.conversions import to_json
from pyiceberg.types import IcebergType, PrimitiveType
from starlette.responses import Response

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.iceberg.deletion_vectors import BLOB_OFFSET
from mangrove.iceberg.filters import to_pruning_predicate
from mangrove.iceberg.partition_specs import list_published_specs
from mangrove.iceberg.publish.history_writer import load_snapshot_files
from mangrove.iceberg.publish.manifest_plan import ManifestFileEntry
from mangrove.iceberg.publish.metadata_writer import SnapshotFiles, list_published_files
from mangrove.iceberg.publish.position_deletes import vector_size_of
from mangrove.iceberg.publish.table_revisions import TableRevisions
from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.model.schema import Schema
from mangrove.rest.errors import NO_SUCH_PLAN, NO_SUCH_PLAN_TASK, respond_iceberg_error
from mangrove.rest.namespaces import respond_json, respond_no_content
from mangrove.rest.request import RestRequest, decode_token, encode_token, find_table
from mangrove.rest.tables import publish_table_at
from mangrove.tables.iceberg_names import VERSION_KEY
from mangrove.tables.scan_plan import build_pruning_test

__all__ = ["handle_cancel_plan", "handle_fetch_plan", "handle_fetch_tasks", "handle_plan_scan"]

_FILES_PER_TASK: Final = 1_000
_PLAN_ID_CHARACTERS_MAX: Final = 2_000
"""The id is part of a URL. The id of a scan with a long filter is omitted; clients need none for a complete plan."""


@dataclass(frozen=True, slots=True)
class _Scan:
    """The scan that a client requests."""

    snapshot_id: int | None
    filter: object = True
    """An Iceberg expression as JSON."""
    is_case_sensitive: bool = True
    uses_snapshot_schema: bool = False

    @staticmethod
    def parse(document: Mapping[str, Any]) -> "_Scan":
        """Return the scan of a planning request."""
        if document.get("start-snapshot-id") is not None or document.get("end-snapshot-id") is not None:
            raise InvalidInputError("incremental scans are not planned by this server; plan them in the client")
        snapshot_id = document.get("snapshot-id")
        if snapshot_id is not None and type(snapshot_id) is not int:
            raise InvalidInputError(f"invalid snapshot-id {str(snapshot_id)[:40]!r}; expected an integer")
        given = document.get("filter")
        return _Scan(
            snapshot_id,
            True if given is None else given,
            document.get("case-sensitive") is not False,
            document.get("use-snapshot-schema") is True,
        )

    @staticmethod
    def decode(fields: object) -> "_Scan | None":
        """Return the scan in a token, or None; clients may change tokens."""
        match fields:
            case {
                "snapshot_id": int(snapshot_id),
                "filter": given,
                "is_case_sensitive": bool(is_case_sensitive),
                "uses_snapshot_schema": bool(uses_snapshot_schema),
            }:
                return _Scan(snapshot_id, given, is_case_sensitive, uses_snapshot_schema)
            case _:
                return None


def handle_plan_scan(requested: RestRequest) -> Response:
    """Return the files of a scan, and plan tasks for those after the first ones."""
    return _respond_plan(requested, _Scan.parse(requested.document()))


def handle_fetch_plan(requested: RestRequest) -> Response:
    """Return a plan by its id."""
    scan = _Scan.decode(decode_token(requested.path_parameters["plan_id"]))
    if scan is None:
        return respond_iceberg_error(404, "the plan id is unknown; plan the scan again", NO_SUCH_PLAN)
    return _respond_plan(requested, scan)


def handle_cancel_plan(requested: RestRequest) -> Response:
    """Accept that a client does not need a plan any more; there is nothing to stop."""
    find_table(requested.open_snapshot(), requested)
    return respond_no_content()


def handle_fetch_tasks(requested: RestRequest) -> Response:
    """Return the files of a plan task."""
    match decode_token(str(requested.document().get("plan-task"))):
        case [fields, int(first), int(end)] if 0 <= first <= end:
            scan = _Scan.decode(fields)
        case _:
            scan = None
    if scan is None:
        return respond_iceberg_error(404, "the plan task is unknown; plan the scan again", NO_SUCH_PLAN_TASK)
    files, schema = _load_files(requested, scan)
    if files is None:
        return respond_json({"file-scan-tasks": []})
    places = _prune(files, schema, scan, first, end)
    return respond_json(_build_tasks(files, [files.data[place] for place in places], scan.filter))


def _respond_plan(requested: RestRequest, scan: _Scan) -> Response:
    files, schema = _load_files(requested, scan)
    if files is None:
        return respond_json({"status": "completed", "file-scan-tasks": []})
    places = _prune(files, schema, scan, 0, len(files.data))
    pinned = {**asdict(scan), "snapshot_id": files.name.snapshot_id}
    starts = places[_FILES_PER_TASK::_FILES_PER_TASK]
    tasks = [encode_token([pinned, *part]) for part in pairwise([*starts, len(files.data)])]
    plan_id = encode_token(pinned)
    return respond_json(
        {
            "status": "completed",
            **({"plan-id": plan_id} if len(plan_id) <= _PLAN_ID_CHARACTERS_MAX else {}),
            **_build_tasks(files, [files.data[place] for place in places[:_FILES_PER_TASK]], scan.filter),
            **({"plan-tasks": tasks} if tasks else {}),
        }
    )


def _load_files(requested: RestRequest, scan: _Scan) -> tuple[SnapshotFiles | None, Schema]:
    """Return the files of the snapshot, or None for a table without writes, and the schema of the filter's columns."""
    served, snapshot = requested.served, requested.open_snapshot()
    locator, entry = find_table(snapshot, requested)
    table = publish_table_at(served, snapshot, locator, entry.id)
    metadata, state = table.published.metadata, table.newest.state
    snapshot_id = metadata.current_snapshot_id if scan.snapshot_id is None else scan.snapshot_id
    if snapshot_id is None:
        return None, state.schema
    listed = metadata.snapshot_by_id(snapshot_id)
    if listed is None:
        raise InvalidInputError(f"Cannot find snapshot with ID {snapshot_id} of table {locator}")
    key = entry.id, snapshot_id
    files = served.snapshot_files.get(key)
    if files is None:
        if snapshot_id != metadata.current_snapshot_id:
            revisions = TableRevisions.up_to(served.lake.metastore, snapshot.snapshot, locator)
            revision = revisions.find_at(int((listed.summary and listed.summary[VERSION_KEY]) or 0))
            if revision is None:
                raise NotFoundError(f"snapshot {snapshot_id} of table {locator} belongs to an expired version")
            state = revision.state
        store = served.lake.effects.store
        files = load_snapshot_files(store, state, metadata, listed, list_published_files(store, state))
        served.snapshot_files.put(key, files, 1 + len(files.data))
    return files, files.state.schema if scan.uses_snapshot_schema else table.newest.state.schema


def _prune(files: SnapshotFiles, schema: Schema, scan: _Scan, first: int, end: int) -> list[int]:
    """Return the places of the files in a range that can contain rows of the scan."""
    predicate = to_pruning_predicate(scan.filter, schema, is_case_sensitive=scan.is_case_sensitive)
    can_match = build_pruning_test(files.state, predicate)
    return [place for place in range(first, min(end, len(files.data))) if can_match(files.data[place].data_file.scan)]


def _build_tasks(files: SnapshotFiles, entries: Sequence[ManifestFileEntry], residual: object) -> dict[str, Any]:
    """Return the scan tasks of data files with their position deletes; clients apply the whole filter to the rows."""
    schema = to_iceberg_schema(files.state.schema)
    types = {
        one.spec.spec_id: [field.field_type for field in one.spec.partition_type(schema).fields]
        for one in list_published_specs(files.state.version)
    }
    deletes: dict[str, list[ManifestFileEntry]] = {}
    for one in files.deletes:
        deletes.setdefault(one.data_file.address, []).append(one)
    tasks: list[dict[str, Any]] = []
    delete_files: list[dict[str, Any]] = []
    for entry in entries:
        task = {"data-file": _encode_file(entry, types), "residual-filter": residual}
        own = [_encode_file(one, types) for one in deletes.get(entry.address, ())]
        if own:
            task["delete-file-references"] = [*range(len(delete_files), len(delete_files) + len(own))]
            delete_files += own
        tasks.append(task)
    return {"file-scan-tasks": tasks, **({"delete-files": delete_files} if delete_files else {})}


def _encode_file(one: ManifestFileEntry, types: Mapping[int, Sequence[IcebergType]]) -> dict[str, Any]:
    """Return a file as a content file of the protocol, given the types of partition values by spec id.

    A file with a null among its partition values has the unpartitioned spec: PyIceberg rejects null there,
    and the file has all columns.
    """
    spec_id, record = one.data_file.published.spec.spec_id, one.data_file.record
    held = [record[place] for place in range(len(types[spec_id]))]
    if None in held:
        spec_id, held = next(number for number, fields in types.items() if not fields), []
    encoded = {
        "spec-id": spec_id,
        "content": "data" if one.is_data else "position-deletes",
        "file-path": one.address,
        "file-format": "parquet",
        "partition": [
            to_json(cast(PrimitiveType, data_type), value)
            for data_type, value in zip(types[spec_id], held, strict=True)
        ],
        "file-size-in-bytes": one.file.size_bytes,
        "record-count": one.file.row_count,
    }
    if one.is_data:
        row_ids = {"first-row-id": one.first_row_id, "data-sequence-number": one.sequence_number}
        return encoded if one.first_row_id is None else encoded | row_ids
    vector_size = vector_size_of(one.file.location)
    if vector_size is not None:
        encoded |= {"file-format": "puffin", "content-offset": BLOB_OFFSET, "content-size-in-bytes": vector_size}
    return {**encoded, "referenced-data-file": one.data_file.address}
