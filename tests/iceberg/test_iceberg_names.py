"""The names of what shows a state: the same for the same state, others for any other."""

from dataclasses import replace

import pytest

from mangrove.expressions.schema_text import parse_schema
from mangrove.model.manifests import DataFile, FileKind, Manifest
from mangrove.model.objects import Delta, DeltaType, TableVersion
from mangrove.model.partitioning import parse_partition_scheme
from mangrove.tables.iceberg_names import CLIENT_SNAPSHOT, compute_published_name, snapshot_id_of
from mangrove.tables.table_state import PartitionLog, TableState

ROOT = "s3://bucket/lake/"
SCHEMA = parse_schema("id bigint not null, what string")
ROWS = DataFile("data/t/a.parquet", 100, 3, schema_id=0)
KEYS = DataFile("data/t/b.parquet", 90, 1, schema_id=0)
APPENDED = Delta(DeltaType.APPEND, Manifest((ROWS,)), position=1)
UPSERTED = Delta(DeltaType.UPSERT, Manifest((KEYS,)), position=2)
DELETED = Delta(DeltaType.DELETE, Manifest((replace(KEYS, kind=FileKind.KEY_DELETES),)), position=2)
MORE = Delta(DeltaType.APPEND, Manifest((replace(ROWS, location="data/t/c.parquet"),)), position=3)


def of(*deltas: Delta) -> TableState:
    return TableState("shop.sales", "t", TableVersion(1, SCHEMA, keys=(1,)), logs=(PartitionLog((), deltas),))


STATE = of(APPENDED, UPSERTED)


def test_the_published_name_of_a_state_is_independent_of_the_table_name() -> None:
    assert compute_published_name(replace(STATE, name="shop.renamed"), ROOT) == compute_published_name(STATE, ROOT)


@pytest.mark.parametrize(
    "other",
    [
        replace(STATE, table_id="u"),
        replace(STATE, properties={"owner": "ana"}),
        replace(STATE, version=replace(STATE.version, keys=())),
        replace(STATE, version=replace(STATE.version, schema=parse_schema("id bigint not null, that string"))),
        replace(STATE, version=replace(STATE.version, partition_scheme=parse_partition_scheme(["id"], SCHEMA))),
        of(APPENDED),
        of(APPENDED, UPSERTED, MORE),
        of(APPENDED, replace(UPSERTED, type=DeltaType.APPEND)),
        of(APPENDED, DELETED),
        of(APPENDED, replace(UPSERTED, position=3)),
    ],
    ids=["id", "properties", "keys", "columns", "partitions", "fewer", "more", "hides less", "deletes", "positions"],
)
def test_different_states_have_different_published_names(other: TableState) -> None:
    assert compute_published_name(other, ROOT).digest != compute_published_name(STATE, ROOT).digest


def test_different_roots_have_different_published_names() -> None:
    assert compute_published_name(STATE, "s3://bucket/copy/").digest != compute_published_name(STATE, ROOT).digest


def test_a_state_to_which_nothing_was_written_has_no_snapshot() -> None:
    name = compute_published_name(replace(STATE, logs=()), ROOT)
    assert name.snapshot_id is None
    assert name.metadata_path == f"data/t/metadata/{name.digest}-0.metadata.json"


def test_the_snapshot_id_of_a_client_is_used_only_for_its_state() -> None:
    digest = compute_published_name(STATE, ROOT).digest
    given = replace(STATE, properties={CLIENT_SNAPSHOT: f"{digest} 4711"})
    assert compute_published_name(given, ROOT).digest == digest
    assert compute_published_name(given, ROOT).snapshot_id == 4711
    later = replace(of(APPENDED, UPSERTED, MORE), properties=given.properties)
    name = compute_published_name(later, ROOT)
    assert name.snapshot_id == snapshot_id_of(name.digest)


@pytest.mark.parametrize(
    "told", ["", "nonsense", " 5", "x y", "{digest} -5", "{digest} ٤", "{digest} 0", "{digest} 9223372036854775808"]
)
def test_a_snapshot_property_of_another_state_is_ignored(told: str) -> None:
    digest = compute_published_name(STATE, ROOT).digest
    given = replace(STATE, properties={CLIENT_SNAPSHOT: told.format(digest=digest)})
    assert compute_published_name(given, ROOT).snapshot_id == snapshot_id_of(digest)
