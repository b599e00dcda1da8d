"""What an Iceberg client asks for: requirements against what is shown, and updates as what is to differ."""

from typing import Any

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.types import LongType, NestedField, StringType

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.iceberg.commit.commit_request import (
    build_new_metadata,
    check_requirements,
    parse_commit_request,
    resolve_requested_changes,
)

UUID_OF_TABLE = "0f2f7c70-0000-4000-8000-000000000001"
SHOWN = TableMetadataV2.model_validate(
    {
        "format-version": 2,
        "location": "file:///lake/data/t1",
        "table-uuid": UUID_OF_TABLE,
        "last-updated-ms": 1,
        "last-column-id": 2,
        "schemas": [
            IcebergSchema(
                NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType(), required=False)
            )
        ],
        "current-schema-id": 0,
        "partition-specs": [PartitionSpec(spec_id=0)],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "properties": {"owner": "ana", "old": "yes"},
        "current-snapshot-id": 7,
        "snapshots": [
            {
                "snapshot-id": 7,
                "sequence-number": 3,
                "timestamp-ms": 1,
                "manifest-list": "file:///lake/data/t1/metadata/a.avro",
                "summary": {"operation": "append"},
                "schema-id": 0,
            }
        ],
        "refs": {"main": {"snapshot-id": 7, "type": "branch"}},
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "last-sequence-number": 3,
    }
)
PARTITION_OF_NOTHING = {"source-id": 99, "field-id": 1000, "transform": "identity", "name": "p"}
ORDER_OF_NOTHING = {"source-id": 99, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}


def added_snapshot(snapshot_id: int, parent: int | None = 7, sequence_number: int = 4) -> dict[str, Any]:
    return {
        "action": "add-snapshot",
        "snapshot": {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent,
            "sequence-number": sequence_number,
            "timestamp-ms": 2,
            "manifest-list": f"file:///lake/data/t1/metadata/{snapshot_id}.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        },
    }


def main_at(snapshot_id: int, name: str = "main", kind: str = "branch") -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": snapshot_id}


def requested(*updates: dict[str, Any], requirements: tuple[dict[str, Any], ...] = ()) -> Any:
    return parse_commit_request({"requirements": list(requirements), "updates": list(updates)})


def test_a_snapshot_on_top_of_the_published_one_is_accepted() -> None:
    request = requested(
        added_snapshot(8),
        main_at(8),
        requirements=({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7},),
    )
    check_requirements(request, SHOWN)
    found = resolve_requested_changes(SHOWN, request)
    assert found.snapshot is not None
    assert (found.snapshot.snapshot_id, found.schema, found.spec, found.sort_order) == (8, None, None, None)
    assert (request.snapshot_ids, request.creates) == ((8,), False)


def test_the_last_of_several_snapshots_is_requested() -> None:
    request = requested(added_snapshot(8), main_at(8), added_snapshot(9, 8, 5), main_at(9))
    check_requirements(request, SHOWN)
    found = resolve_requested_changes(SHOWN, request).snapshot
    assert found is not None
    assert found.snapshot_id == 9


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 6},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-table-uuid", "uuid": "0f2f7c70-0000-4000-8000-000000000002"},
        {"type": "assert-current-schema-id", "current-schema-id": 1},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
        {"type": "assert-default-spec-id", "default-spec-id": 4},
        {"type": "assert-create"},
    ],
)
def test_a_violated_requirement_is_a_conflict(requirement: dict[str, Any]) -> None:
    with pytest.raises(ConflictError, match="reload the table"):
        check_requirements(requested(requirements=(requirement,)), SHOWN)


def test_a_snapshot_that_follows_another_is_a_conflict_also_where_nothing_is_required() -> None:
    with pytest.raises(ConflictError, match="has parent 6, but the current snapshot is 7"):
        check_requirements(requested(added_snapshot(8, 6), main_at(8)), SHOWN)


def test_updates_change_columns_and_properties() -> None:
    schema = IcebergSchema(*SHOWN.schema().fields, NestedField(3, "more", LongType()), schema_id=1)
    request = requested(
        {"action": "add-schema", "schema": schema.model_dump(mode="json", by_alias=True), "last-column-id": 3},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-properties", "updates": {"owner": "bo", "new": "1"}},
        {"action": "remove-properties", "removals": ["old", "never-there"]},
    )
    found = resolve_requested_changes(SHOWN, request)
    assert found.schema is not None
    assert found.schema.column_names == ["id", "name", "more"]
    assert (found.put, found.removed, found.snapshot) == ({"owner": "bo", "new": "1"}, ("old",), None)


def test_removing_the_main_branch_replaces_the_table() -> None:
    gone = {"action": "remove-snapshot-ref", "ref-name": "main"}
    request = requested(gone, added_snapshot(8, None), main_at(8))
    check_requirements(request, SHOWN)
    found = resolve_requested_changes(SHOWN, request)
    assert found.snapshot is not None
    assert (found.replaces, found.snapshot.snapshot_id) == (True, 8)
    assert resolve_requested_changes(SHOWN, requested(gone)).snapshot is None


def test_statistics_files_of_a_client_are_changes_and_those_of_partitions_are_ignored() -> None:
    common = {"snapshot-id": 8, "statistics-path": "file:///lake/data/t1/metadata/a.stats", "file-size-in-bytes": 1}
    file = {**common, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    added = (added_snapshot(8), main_at(8))
    along = requested(*added, {"action": "set-statistics", "snapshot-id": 8, "statistics": file})
    assert [one.snapshot_id for one in resolve_requested_changes(SHOWN, along).statistics or ()] == [8]
    partitions = requested(*added, {"action": "set-partition-statistics", "partition-statistics": common})
    assert resolve_requested_changes(SHOWN, partitions) == resolve_requested_changes(SHOWN, requested(*added))


def test_updates_without_effect_request_no_changes() -> None:
    removed = requested({"action": "remove-statistics", "snapshot-id": 7})
    assert resolve_requested_changes(SHOWN, removed) == resolve_requested_changes(SHOWN, requested())
    request = requested(
        {"action": "set-properties", "updates": {"owner": "ana"}},
        {"action": "assign-uuid", "uuid": UUID_OF_TABLE},
        {"action": "set-location", "location": "file:///lake/data/t1/"},
        {"action": "upgrade-format-version", "format-version": 2},
    )
    assert resolve_requested_changes(SHOWN, request) == resolve_requested_changes(SHOWN, requested())


def test_tags_are_set_and_removed() -> None:
    tagged = resolve_requested_changes(SHOWN, requested(main_at(7, "year-end", "tag")))
    ref = tagged.tags["year-end"]
    assert ref is not None
    assert (ref.snapshot_id, tagged.snapshot, tagged.is_rollback) == (7, None, False)
    removed = resolve_requested_changes(
        tagged.after, requested({"action": "remove-snapshot-ref", "ref-name": "year-end"})
    )
    assert (removed.tags, removed.replaces) == ({"year-end": None}, False)
    assert resolve_requested_changes(tagged.after, requested(main_at(7, "year-end", "tag"))).tags == {}


@pytest.mark.parametrize(
    ("updates", "told"),
    [
        ([added_snapshot(8), main_at(8, "audit")], "only the branch main"),
        ([added_snapshot(8), main_at(8, "main", "tag")], "only the branch main"),
        ([added_snapshot(8)], "no branch is set to it"),
        ([main_at(9)], "unknown snapshot: 9"),
        ([added_snapshot(8), main_at(8), main_at(8, "new", "tag")], "commit the snapshot first and then the tag"),
        ([main_at(9, "new", "tag")], "Cannot set new to unknown snapshot: 9"),
        ([{"action": "remove-snapshots", "snapshot-ids": [7]}], "mangrove expire"),
        ([{"action": "set-location", "location": "s3://elsewhere/t"}], "cannot be changed"),
        ([{"action": "assign-uuid", "uuid": "0f2f7c70-0000-4000-8000-000000000002"}], "cannot be changed"),
        ([{"action": "upgrade-format-version", "format-version": 4}], "unsupported Iceberg format version 4"),
        ([main_at(7, "", "tag")], "a tag needs a name"),
        ([{"action": "add-spec", "spec": {"spec-id": 1, "fields": [PARTITION_OF_NOTHING]}}], "source column 99"),
        (
            [{"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [ORDER_OF_NOTHING]}}],
            "source column 99",
        ),
        ([{"action": "remove-schemas", "schema-ids": [4]}], "unsupported update"),
        ([{"action": "set-current-schema", "schema-id": 9}], "are inconsistent"),
        (
            [
                {"action": "add-spec", "spec": {"spec-id": 1, "fields": [PARTITION_OF_NOTHING]}},
                {"action": "set-default-spec", "spec-id": 1},
            ],
            "are inconsistent",
        ),
    ],
)
def test_unsupported_updates_are_rejected(updates: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        resolve_requested_changes(SHOWN, requested(*updates))


def test_a_snapshot_that_was_made_before_another_one_is_a_conflict() -> None:
    with pytest.raises(ConflictError, match="has sequence number 2, and the table's last one is 3; reload the table"):
        resolve_requested_changes(SHOWN, requested(added_snapshot(8, 7, 2), main_at(8)))


@pytest.mark.parametrize(
    "document",
    [
        {"requirements": [{"type": "assert-nothing-known"}]},
        {"updates": [{"action": "do-something-else"}]},
        {"updates": "all"},
        {"updates": [{"action": "add-snapshot", "snapshot": {"snapshot-id": "one"}}]},
    ],
)
def test_an_invalid_request_is_rejected(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="invalid requirements or updates"):
        parse_commit_request(document)


def test_a_table_creation_is_built_from_its_updates() -> None:
    schema = SHOWN.schema().model_dump(mode="json", by_alias=True)
    request = requested(
        {"action": "assign-uuid", "uuid": UUID_OF_TABLE},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": schema, "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "file:///lake/data/t1"},
        {"action": "set-properties", "updates": {"owner": "ana"}},
        requirements=({"type": "assert-create"},),
    )
    check_requirements(request, None)
    assert request.creates
    found = build_new_metadata(request.updates)
    assert (found.schema(), found.properties, found.current_snapshot_id) == (SHOWN.schema(), {"owner": "ana"}, None)


def test_a_requirement_on_a_missing_table_is_a_conflict() -> None:
    with pytest.raises(ConflictError):
        check_requirements(
            requested(requirements=({"type": "assert-current-schema-id", "current-schema-id": 0},)), None
        )


def test_a_table_creation_without_a_schema_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="are inconsistent"):
        build_new_metadata(requested({"action": "set-properties", "updates": {"owner": "ana"}}).updates)


def test_another_branch_than_main_is_invalid_input_and_not_a_conflict() -> None:
    request = requested(
        added_snapshot(8, None),
        main_at(8, "dev"),
        requirements=({"type": "assert-ref-snapshot-id", "ref": "dev", "snapshot-id": None},),
    )
    with pytest.raises(InvalidInputError, match="only the branch main"):
        check_requirements(request, SHOWN)
