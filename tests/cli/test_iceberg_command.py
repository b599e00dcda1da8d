"""The command that prints the address by which engines that read Iceberg open a table."""

from typing import Any

import mangrove


def test_the_command_prints_an_address_that_opens(run: Any, lake: str) -> None:
    mangrove.open(lake).create_table("sales.shown", as_=[{"id": 1}])
    told = run("iceberg", lake, "sales.shown", "--json")
    assert told.code == 0
    assert told.json["table"] == "sales.shown"
    assert told.json["metadata"] == mangrove.open(lake).table("sales.shown").iceberg()
    first, second = run("iceberg", lake, "sales.shown").out.splitlines()
    assert first == told.json["metadata"]
    assert "StaticTable.from_metadata" in second


def test_the_command_publishes_an_earlier_version(run: Any, lake: str) -> None:
    opened = mangrove.open(lake)
    table = opened.create_table("sales.shown", as_=[{"id": 1}])
    before = opened.version
    table.append([{"id": 2}])
    told = run("iceberg", lake, "sales.shown", "--at", str(before), "--json").json
    assert told["version"] == before
    assert told["metadata"] == opened.at(before).table("sales.shown").iceberg()


def test_a_missing_table_is_reported(run: Any, lake: str) -> None:
    told = run("iceberg", lake, "sales.nothing")
    assert told.code == 1
    assert "nothing" in told.err
