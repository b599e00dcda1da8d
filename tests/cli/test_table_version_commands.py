"""Table versions and streams on the command line."""

from pathlib import Path
from typing import Any

import mangrove
from mangrove.model.locators import Locator


def test_a_version_is_created_loaded_compared_activated_and_the_old_one_dropped(
    run: Any, lake: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,price\n1,5\n2,6\n")
    made = run(
        "create-version", lake, "sales.orders", "--schema", "id bigint, price int", "--key", "id",
        "--partition-by", "bucket(2, id)", "--property", "owner=ana", "--description", "prices",
    )  # fmt: skip
    assert (made.code, made.out) == (0, "created sales.orders.version_2, which is unreleased, in version 4\n")
    assert run("ingest", lake, "sales.orders", str(tmp_path / "a.csv"), "--table-version", "2").code == 0
    assert (
        run("update", lake, "sales.orders", "--set", "price=7", "--where", "id = 2", "--table-version", "2").code == 0
    )
    assert run("read", lake, "sales.orders", "--json").json == []
    assert run("files", lake, "sales.orders", "--json").json == []
    assert run("files", lake, "sales.orders", "--table-version", "2", "--json").json
    compared = run("read", lake, "sales.orders.version_2", "--json").json
    assert sorted((row["id"], row["price"]) for row in compared) == [(1, 5), (2, 7)]
    done = run("set-state", lake, "sales.orders", "2=active", "1=deprecated", "--json")
    assert (done.code, done.json["default"]) == (0, 2)
    listed = run("versions", lake, "sales.orders", "--json").json
    assert [(one["version"], one["state"], one["is_default"]) for one in listed] == [
        (1, "deprecated", False),
        (2, "active", True),
    ]
    assert (listed[1]["partition_by"], listed[1]["properties"], listed[1]["description"]) == (
        ["bucket(2, id)"], {"owner": "ana"}, "prices",
    )  # fmt: skip
    assert "1 deprecated, 2 active (default)" in run("show", lake, "sales.orders").out
    assert "price" in run("versions", lake, "sales.orders").out
    assert run("delete", lake, "sales.orders", "id = 1", "--table-version", "2").code == 0
    assert run("drop-version", lake, "sales.orders", "1").code == 0
    assert len(run("versions", lake, "sales.orders", "--json").json) == 1
    assert len(run("versions", lake, "sales.orders", "--at", "4", "--json").json) == 2


def test_wrong_versions_and_states_are_errors_that_change_nothing(run: Any, lake: str) -> None:
    before = mangrove.open(lake).version
    for words, message in (
        (("set-state", lake, "sales.orders", "2=active"), "sales.orders has no table version 2; it has 1"),
        (("set-state", lake, "sales.orders", "1=live"), "unknown state of a table version 'live'"),
        (("set-state", lake, "sales.orders", "x=active"), "'x' is not the number of a table version"),
        (("set-state", lake, "sales.orders", "active"), "STATE 'active' is invalid; expected STATE key=value"),
        (("set-state", lake, "sales.orders.version_1", "active", "beta"), "can have one state, not 2"),
        (("set-state", lake, "sales.orders.version_1", "2=active"), "names one table version; use sales.orders"),
        (("set-state", lake, "sales.orders.version_7", "active"), "sales.orders has no table version 7; it has 1"),
        (("drop-version", lake, "sales.orders", "1"), "is the only table version of sales.orders"),
        (("read", lake, "sales.orders", "--table-version", "9"), "has no table version 9"),
        (("read", lake, "sales.orders.version_9"), "has no table version 9"),
    ):
        done = run(*words)
        assert done.code in (1, 2)
        assert message in done.err
    assert mangrove.open(lake).version == before


def test_a_stream_is_created_loaded_committed_and_the_old_one_dropped(run: Any, lake: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,amount\n7,5\n")
    before = run("streams", lake, "sales.orders", "--json").json[0]["id"]
    made = run("create-stream", lake, "sales.orders", "reload", "--format", "parquet")
    assert (made.code, made.out) == (
        0, "created stream reload of sales.orders in version 4\n",
    )  # fmt: skip
    assert run("ingest", lake, "sales|orders|1|reload|parquet", str(tmp_path / "a.csv")).code == 0
    assert run("read", lake, "sales.orders", "--json").json == []
    assert run("commit-stream", lake, "sales.orders", "reload").code == 0
    assert [row["id"] for row in run("read", lake, "sales.orders", "--json").json] == [7]
    refused = run("drop-stream", lake, "sales.orders", "reload")
    assert refused.code == 2
    assert "reload" in refused.err
    assert run("drop-stream", lake, "sales.orders", before).code == 0
    assert [one["id"] for one in run("streams", lake, "sales.orders", "--json").json] == ["reload"]


def test_the_streams_of_a_table_are_listed(run: Any, lake: str) -> None:
    mangrove.open(lake).table("sales.orders").create_stream("reload", "parquet")
    found = {one["id"]: one for one in run("streams", lake, "sales.orders", "--json").json}
    assert (found["reload"]["format"], found["reload"]["state"], found["reload"]["is_served"]) == (
        "parquet", "staged", False,
    )  # fmt: skip
    assert "staged" in run("streams", lake, "sales.orders.version_1").out


def test_the_state_of_a_version_is_set_by_its_name_or_canonical_string(run: Any, lake: str) -> None:
    run("create-version", lake, "sales.orders")
    done = run("set-state", lake, "sales.orders.version_2", "active", "--json")
    assert (done.code, done.json["default"], done.json["table"]) == (0, 2, "sales.orders")
    assert run("set-state", lake, "sales|orders|1", "deprecated").code == 0
    assert run("set-state", lake, "sales|orders|2", "2=beta").code == 0
    states = [one["state"] for one in run("versions", lake, "sales.orders", "--json").json]
    assert states == ["deprecated", "beta"]
    assert "[VERSION=]STATE..." in run("set-state", "--help").out


def test_a_table_without_an_active_version_is_described_with_a_remedy(run: Any, lake: str) -> None:
    run("create-version", lake, "sales.orders")
    run("set-state", lake, "sales.orders", "1=beta")
    statement = (
        "sales.orders has no active table version; versions: 1 (beta), 2 (unreleased). Activate one as in "
        "`mangrove set-state LAKE sales.orders 2=active`, or name one as in sales.orders.version_2"
    )
    shown = run("show", lake, "sales.orders")
    assert shown.code == 0
    assert statement in " ".join(shown.out.split())
    described = run("show", lake, "sales.orders", "--json").json
    assert (described["unavailable"], described["versions"]) == (statement, ["1 beta", "2 unreleased"])
    for command in ("read", "iceberg"):
        refused = run(command, lake, "sales.orders")
        assert (refused.code, statement in " ".join(refused.err.split())) == (2, True)


def test_rows_and_files_of_every_kind_are_read_by_canonical_strings(run: Any, lake: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,amount\n1,5\n")
    assert run("ingest", lake, "sales.orders", str(tmp_path / "a.csv")).code == 0
    opened = mangrove.open(lake)
    table = opened.table("sales.orders")
    locators: list[Locator] = [table.opened().version_locator, table.opened().stream_locator]
    locators += [*(at for at, _ in table.partitions()), *(at for at, _ in table.deltas())]
    for locator in locators:
        name = opened.resolve(locator).canonical
        assert [row["id"] for row in run("read", lake, name, "--json").json] == [1]
        assert len(run("files", lake, name, "--json").json) == 1
        assert run("show", lake, name, "--json").json["canonical"] == name


def test_show_lists_the_streams_partitions_and_deltas_in_an_object(run: Any, lake: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,amount\n1,5\n")
    assert run("ingest", lake, "sales.orders", str(tmp_path / "a.csv")).code == 0
    opened = mangrove.open(lake)
    (delta, _) = next(iter(opened.table("sales.orders").deltas()))
    name = "sales|orders|1"
    for _ in range(3):
        assert "contains" in run("show", lake, name).out
        (name,) = run("show", lake, name, "--json").json["children"]
    assert (name, run("show", lake, name, "--json").json["children"]) == (opened.resolve(delta).canonical, [])


def test_an_empty_text_removes_the_partitions_of_the_next_version(run: Any, lake: str) -> None:
    partitioned = run("create-version", lake, "sales.orders", "--partition-by", "bucket(2, id)", "--state", "active")
    assert partitioned.code == 0
    refused = run("create-version", lake, "sales.orders", "--schema", "number bigint", "--key", "number")
    assert refused.code != 0
    assert "partition_by and sort_by that are not given are those of table version 2" in " ".join(refused.err.split())
    words = ("--schema", "number bigint", "--key", "number", "--partition-by", "")
    assert run("create-version", lake, "sales.orders", *words).code == 0
    assert run("versions", lake, "sales.orders", "--json").json[-1]["partition_by"] == []
