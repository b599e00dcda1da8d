"""Defaults of columns in format version 3, between SQL text and the values that Iceberg clients have."""

import datetime
import json
from collections.abc import Sequence
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from starlette.testclient import TestClient
from tests.rest.conftest import TOKEN

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.iceberg.commit import transaction
from mangrove.iceberg.defaults import format_default, parse_default
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.types import Binary, Boolean, DataType, Date, Decimal, Float64, Int16, Int64, Timestamp, Varchar
from mangrove.server.access import Access
from mangrove.server.app import build_app

VALUES: list[tuple[object, DataType]] = [
    (True, Boolean()),
    (-5, Int64()),
    (2**40, Int64()),
    (1.5, Float64()),
    (-1e300, Float64()),
    (Number("-1.20"), Decimal(5, 2)),
    ("it's a \\ text", Varchar()),
    (datetime.date(2026, 1, 2), Date()),
]


@pytest.mark.parametrize(("value", "data_type"), VALUES)
def test_a_default_is_the_same_value_again(value: object, data_type: DataType) -> None:
    text = format_default(value, data_type, "column 'a'")
    assert parse_default(text, data_type) == value
    assert type(parse_default(text, data_type)) is type(value)


@pytest.mark.parametrize(
    ("value", "data_type"),
    [(1, Boolean()), (True, Int64()), ("x", Int64()), (float("nan"), Float64()), (b"x", Binary()), (1, Timestamp())],
)
def test_a_default_of_another_type_is_refused(value: object, data_type: DataType) -> None:
    with pytest.raises(InvalidInputError, match="unsupported default"):
        format_default(value, data_type, "column 'a'")


@pytest.mark.parametrize(
    ("text", "data_type", "value"),
    [
        ("7", Int16(), 7),
        ("7", Decimal(5, 2), Number("7.00")),
        ("cast('7' as bigint)", Int64(), None),
        ("1.5", Float64(), 1.5),
        ("current_date()", Date(), None),
        ("uuid()", Varchar(), None),
        ("12345.678", Decimal(5, 2), None),
        ("null", Int64(), None),
        (None, Int64(), None),
    ],
)
def test_only_constants_of_the_type_of_their_column_are_published(
    text: str | None, data_type: DataType, value: object
) -> None:
    assert parse_default(text, data_type) == value


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("n")
    return lake


@pytest.fixture
def client(lake: Lakehouse) -> TestClient:
    return TestClient(
        build_app(lake, Access("127.0.0.1", TOKEN, is_writable=True)),
        base_url="http://127.0.0.1/iceberg",
        headers={"Authorization": f"Bearer {TOKEN}"},
    )


def field(number: int, name: str, kind: str = "int", **more: object) -> dict[str, Any]:
    return {
        "id": number,
        "name": name,
        "type": kind,
        "required": False,
        **{one.replace("_", "-"): more[one] for one in more},
    }


def schema_of(*fields: dict[str, Any], schema_id: int = 0) -> dict[str, Any]:
    return {"type": "struct", "schema-id": schema_id, "fields": list(fields)}


def create(client: TestClient, version: str, *fields: dict[str, Any]) -> Any:
    body = {"name": "t", "schema": schema_of(*fields), "properties": {"format-version": version}}
    return client.post("v1/namespaces/n/tables", json=body)


def change(client: TestClient, *fields: dict[str, Any], key_ids: Sequence[int] = ()) -> Any:
    schema = {**schema_of(*fields), "identifier-field-ids": list(key_ids)}
    updates = [
        {"action": "add-schema", "schema": schema, "last-column-id": max(one["id"] for one in fields)},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    return client.post("v1/namespaces/n/tables/t", json={"requirements": [], "updates": updates})


def load_snapshot_id(client: TestClient) -> int:
    found = client.get("v1/namespaces/n/tables/t").json()["metadata"]["current-snapshot-id"]
    assert isinstance(found, int)
    return found


def load_fields(client: TestClient) -> dict[str, dict[str, Any]]:
    metadata = client.get("v1/namespaces/n/tables/t").json()["metadata"]
    current = next(one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
    return {one["name"]: one for one in current["fields"]}


def test_a_client_creates_a_table_with_defaults_and_changes_them(lake: Lakehouse, client: TestClient) -> None:
    fields = [
        field(1, "id"),
        field(2, "n", initial_default=5, write_default=5),
        field(3, "t", "string", write_default="x'y"),
        field(4, "d", "date", initial_default="2026-01-02", write_default="2026-01-03"),
    ]
    answer = create(client, "3", *fields)
    assert answer.status_code == 200, answer.text
    shown = load_fields(client)
    assert (shown["n"]["initial-default"], shown["n"]["write-default"]) == (5, 5)
    assert (shown["d"]["initial-default"], shown["d"]["write-default"]) == ("2026-01-02", "2026-01-03")
    lake.sql("insert into n.t (id) values (1)")
    row = {"id": 1, "n": 5, "t": "x'y", "d": datetime.date(2026, 1, 3)}
    assert lake.table("n.t").to_arrow().to_pylist() == [row]
    fields[1]["write-default"] = 6
    del fields[2]["write-default"]
    answer = change(client, *fields, field(5, "more", write_default=1))
    assert answer.status_code == 200, answer.text
    lake.sql("insert into n.t (id) values (2)")
    rows = sorted(lake.table("n.t").to_arrow().to_pylist(), key=lambda one: one["id"])
    assert rows == [{**row, "more": None}, {**row, "id": 2, "n": 6, "t": None, "more": 1}]


@pytest.mark.parametrize("keys", [(), ("id",)])
@pytest.mark.parametrize("required", [False, True])
def test_rows_get_the_initial_default_of_a_new_column_in_the_same_commit(
    lake: Lakehouse, client: TestClient, keys: tuple[str, ...], required: bool
) -> None:
    table = lake.create_table("n.t", "id int not null, early int", keys=keys, properties={"format-version": "3"})
    table.append([{"id": 1, "early": 2}, {"id": 2, "early": 3}, {"id": 3, "early": 4}])
    table.delete("id = 3")
    first = load_snapshot_id(client)
    before = lake.version
    added = {**field(3, "n", initial_default=5, write_default=6), "required": required}
    text = field(4, "t", "string", initial_default="x")
    key_ids = [1] if keys else []
    answer = change(client, {**field(1, "id"), "required": True}, field(2, "early"), added, text, key_ids=key_ids)
    assert answer.status_code == 200, answer.text
    assert lake.version == before + 1
    rows = [{"id": 1, "early": 2, "n": 5, "t": "x"}, {"id": 2, "early": 3, "n": 5, "t": "x"}]
    assert sorted(lake.table("n.t").to_arrow().to_pylist(), key=lambda one: one["id"]) == rows
    assert sorted(lake.table("n.t").to_arrow(where="n = 5 and t = 'x'").to_pylist(), key=lambda one: one["id"]) == rows
    assert lake.sql("select * from n.t where n = 5 order by id", engine="duckdb").to_arrow().to_pylist() == rows
    published = StaticTable.from_metadata(lake.table("n.t").iceberg()).scan(row_filter="n == 5").to_arrow().to_pylist()
    assert sorted(published, key=lambda one: one["id"]) == rows
    assert load_fields(client)["n"]["initial-default"] == 5
    lake.sql("insert into n.t (id) values (4)")
    assert lake.table("n.t").to_arrow(where="id = 4")["n"].to_pylist() == [6]
    assert lake.maintenance.check().problems == ()
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first}
    refused = client.post("v1/namespaces/n/tables/t", json={"requirements": [], "updates": [main]})
    assert (refused.status_code, lake.table("n.t").count()) == (400, 3)


def test_an_initial_default_of_an_existing_column_or_a_large_table_is_refused(
    lake: Lakehouse, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert create(client, "3", field(1, "id")).status_code == 200
    assert change(client, field(1, "id"), field(2, "early", initial_default=1)).status_code == 200
    lake.table("n.t").append([{"id": 1, "early": 2}])
    before = lake.version
    refused = change(client, field(1, "id"), field(2, "early", initial_default=3))
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "BadRequestException")
    assert "give the rows its values" in refused.json()["error"]["message"]
    monkeypatch.setattr(transaction, "_FILLED_BYTES_MAX", 1)
    refused = change(client, field(1, "id"), field(2, "early", initial_default=1), field(3, "n", initial_default=5))
    assert (refused.status_code, "more than 1; add the column without one" in refused.text) == (400, True)
    assert (lake.version, set(load_fields(client))) == (before, {"id", "early"})
    assert change(client, field(1, "id"), field(2, "late", initial_default=1)).status_code == 200


def test_defaults_of_mangrove_are_published_in_format_version_3_only(lake: Lakehouse, client: TestClient) -> None:
    lake.create_table("n.t", "id bigint default 7, d date default current_date(), t string")
    assert "write-default" not in json.dumps(load_fields(client))
    lake.table("n.t").alter({"format-version": "3"})
    shown = load_fields(client)
    assert shown["id"]["write-default"] == 7
    assert shown["d"].get("write-default") is None
    # What a client cannot express does not change.
    answer = change(client, shown["id"], {**shown["d"], "doc": "the day"}, shown["t"])
    assert answer.status_code == 200, answer.text
    schema = lake.table("n.t").schema
    assert schema is not None
    assert (schema.column("id").default, schema.column("d").default) == ("7", "current_date()")


def test_defaults_are_refused_in_format_version_2_and_inside_columns(client: TestClient) -> None:
    for version, one in (
        ("2", field(1, "n", write_default=5)),
        ("3", {**field(1, "s"), "type": schema_of(field(2, "n", write_default=5))}),
        ("3", field(1, "b", "binary", write_default="00")),
    ):
        assert create(client, version, one).status_code == 400
