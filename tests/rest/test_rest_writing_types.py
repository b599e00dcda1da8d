"""PyIceberg writes values of every type into tables that it made and into ours, and all of them come back."""

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from tests.rest.conftest import TOKEN, counted, served

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)
SAMPLE_TIMESTAMP = datetime.datetime(2026, 2, 3, 4, 5, 6, 7)
PLAIN: dict[str, tuple[IcebergType, Any]] = {
    "a": (BooleanType(), True),
    "b": (IntegerType(), -7),
    "c": (LongType(), 2**40),
    "d": (FloatType(), 1.5),
    "e": (DoubleType(), -2.5),
    "f": (DecimalType(20, 3), decimal.Decimal("12345.678")),
    "g": (DateType(), datetime.date(1969, 7, 20)),
    "h": (TimeType(), datetime.time(4, 5, 6, 7)),
    "i": (TimestampType(), SAMPLE_TIMESTAMP),
    "j": (TimestamptzType(), SAMPLE_TIMESTAMP.replace(tzinfo=datetime.UTC)),
    "k": (StringType(), "text"),
    "l": (FixedType(5), b"fives"),
    "m": (BinaryType(), b"\0\xff"),
    "n": (UUIDType(), uuid.UUID(int=7)),
}
NESTED = [
    NestedField(
        20,
        "s",
        StructType(NestedField(21, "x", LongType(), required=True), NestedField(22, "y", StringType(), required=False)),
        required=False,
    ),
    NestedField(23, "t", ListType(24, LongType(), element_required=False), required=False),
    NestedField(25, "u", MapType(26, StringType(), 27, DoubleType(), value_required=False), required=False),
]
NESTED_VALUES = {"s": {"x": 1, "y": None}, "t": [1, None, 3], "u": [("k", 1.0), ("l", None)]}


@pytest.fixture
def typed_lake(tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    return lake


@pytest.fixture
def typed(typed_lake: Lakehouse, catalog_of: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    with served(counted(typed_lake), WRITABLE) as address:
        yield catalog_of(address, token=TOKEN)


def test_values_of_every_type_round_trip(typed_lake: Lakehouse, typed: RestCatalog) -> None:
    fields = [
        NestedField(number, name, kind, required=False) for number, (name, (kind, _)) in enumerate(PLAIN.items(), 1)
    ]
    table = typed.create_table("s.all", IcebergSchema(*fields, *NESTED))
    arrow = table.schema().as_arrow()
    values: dict[str, Any] = {name: value for name, (_, value) in PLAIN.items()} | NESTED_VALUES
    values["n"] = PLAIN["n"][1].bytes
    table.append(pa.Table.from_pylist([values, dict.fromkeys(values)], schema=arrow))
    ours = typed_lake.table("s.all").to_arrow().to_pylist()
    shown = typed.load_table("s.all").scan().to_arrow().to_pylist()
    assert [_plain(row) for row in ours] == [_plain(row) for row in shown] == [_plain(values), dict.fromkeys(values)]
    table.delete("b = -7")
    assert [_plain(row) for row in typed_lake.table("s.all").to_arrow().to_pylist()] == [dict.fromkeys(values)]
    assert typed_lake.maintenance.check().problems == ()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.bytes if isinstance(value, uuid.UUID) else value for name, value in row.items()}


@pytest.mark.parametrize(
    ("columns", "row", "is_taken"),
    [
        ("v smallint", {"v": 32767}, True),
        ("v smallint", {"v": 32768}, False),
        ("v varchar(3)", {"v": "äöü"}, True),
        ("v varchar(3)", {"v": "abcd"}, False),
        ("v char(3)", {"v": "abc"}, True),
        ("v char(3)", {"v": "ab"}, False),
        ("v timetz", {"v": datetime.time(1, 2, 3)}, True),
    ],
)
def test_values_outside_the_narrower_mangrove_type_are_rejected(
    typed_lake: Lakehouse, typed: RestCatalog, columns: str, row: dict[str, Any], is_taken: bool
) -> None:
    typed_lake.create_table("s.narrow", columns)
    table = typed.load_table("s.narrow")
    rows = pa.Table.from_pylist([row], schema=table.schema().as_arrow())
    before = typed_lake.version
    if is_taken:
        table.append(rows)
        assert typed_lake.table("s.narrow").to_arrow().num_rows == 1
    else:
        with pytest.raises(BadRequestError, match="v"):
            table.append(rows)
        assert typed_lake.version == before


def test_a_client_commit_can_be_rolled_back(typed_lake: Lakehouse, typed: RestCatalog) -> None:
    table = typed.create_table("s.t", pa.schema([("id", pa.int64())]), properties={"commit.retry.num-retries": "0"})
    table.append(pa.table({"id": [1]}))
    first, version = table.metadata.current_snapshot_id, typed_lake.version
    table.append(pa.table({"id": [2]}))
    typed_lake.rollback(to=version)
    with pytest.raises(CommitFailedException):
        table.append(pa.table({"id": [3]}))
    again = typed.load_table("s.t")
    assert again.metadata.current_snapshot_id == first
    again.append(pa.table({"id": [4]}))
    assert sorted(again.scan().to_arrow()["id"].to_pylist()) == [1, 4]
    assert sorted(typed_lake.table("s.t").to_arrow()["id"].to_numpy().tolist()) == [1, 4]
