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
        (("set-state", lake, "sales.orders", "active"), "use VERSION=STATE, as in 2=active, or name the version"),
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
    assert "partition_by, sort_by, checks are those of table version 2 unless given" in " ".join(refused.err.split())
    words = ("--schema", "number bigint", "--key", "number", "--partition-by", "")
    assert run("create-version", lake, "sales.orders", *words).code == 0
    assert run("versions", lake, "sales.orders", "--json").json[-1]["partition_by"] == []


def test_versions_and_streams_are_changed_by_names_and_canonical_strings(run: Any, lake: str) -> None:
    before = run("streams", lake, "sales.orders", "--json").json[0]["id"]
    run("create-version", lake, "sales.orders", "--stream-id", "first")
    run("create-stream", lake, "sales.orders.version_2", "reload")
    committed = run("commit-stream", lake, "sales|orders|2|reload|deltacat")
    assert (committed.code, committed.out) == (
        0, "sales.orders.version_2 is read from stream reload, as of version 6\n"
    )  # fmt: skip
    assert run("drop-stream", lake, "sales|orders|2|first|deltacat").code == 0
    assert [one["id"] for one in run("streams", lake, "sales|orders|2", "--json").json] == ["reload"]
    assert run("alter", lake, "sales|orders|2", "--property", "owner=ana", "--add-column", "note string").code == 0
    assert run("alter", lake, "sales.orders.version_2", "--description", "newer").out.startswith(
        "altered table version sales.orders.version_2"
    )
    described = run("show", lake, "sales.orders.version_2", "--json").json
    assert (described["properties"], described["description"]) == ({"owner": "ana"}, "newer")
    assert described["columns"][-1]["name"] == "note"
    assert run("show", lake, "sales.orders", "--json").json["properties"] == {}
    dropped = run("drop-version", lake, "sales.orders.version_2", "--json")
    assert (dropped.code, dropped.json["dropped"], dropped.json["table"]) == (0, 2, "sales.orders")
    for words, message in (
        (("drop-version", lake, "sales.orders"), "choose a table version of sales.orders to drop"),
        (("drop-version", lake, "sales|orders|1", "2"), "names table version 1, but version is 2"),
        (("commit-stream", lake, "sales.orders"), "choose a stream of sales.orders to commit"),
        (("drop", lake, "sales.orders.version_1"), "expected a namespace, table or view; drop parts of"),
        (("rename", lake, "sales|orders|1", "sales.old"), "sales|orders|1 is a table version; expected a namespace"),
        (
            ("alter", lake, f"sales|orders|1|{before}|deltacat", "--property", "a=b"),
            "namespace, table, table version or view",
        ),
    ):
        refused = run(*words)
        assert (refused.code, message in " ".join(refused.err.split())) == (2, True), refused.err


def test_tables_and_their_parts_are_named_by_locators_in_all_commands(run: Any, lake: str) -> None:
    table = mangrove.open(lake).table("sales.orders")
    name, version = str(table.identity), str(table.opened().version_locator)
    run("access", lake, "create-principal", "ana")
    for words in (
        ("access", lake, "grant", "read", "--on", name, "--to", "ana"),
        ("alias", lake, "sales.bought", name),
        ("rename", lake, name, "sales.sold"),
        ("alter", lake, name, "--property", "owner=ana"),
        ("create-version", lake, version),
        ("set-state", lake, name, "2=active", "1=deprecated"),
        ("set-state", lake, version, "beta"),
        ("drop-version", lake, version),
        ("create-stream", lake, name, "reload"),
        ("commit-stream", lake, name, "reload"),
        ("read", lake, name),
        ("show", lake, f"{name}|2|reload|deltacat"),
        ("drop", lake, name),
    ):
        assert (ran := run(*words)).code == 0, (words, ran.err)
    assert run("access", lake, "grant", "read", "--on", version, "--to", "ana").code != 0
    assert run("rename", lake, version, "sales.other").code != 0
    assert [one["name"] for one in run("ls", lake, "sales", "--json").json] == ["sales.daily"]


def test_tables_are_created_with_a_chosen_version_and_stream(run: Any, lake: str, tmp_path: Path) -> None:
    words = ("--schema", "id bigint", "--table-version", "4", "--stream-id", "main")
    assert run("create", lake, "sales.items", *words).code == 0
    (listed,) = run("versions", lake, "sales.items", "--json").json
    assert (listed["version"], listed["stream_id"]) == (4, "main")
    made = run("create-version", lake, "sales.items", "--schemaless", "--stream-id", "raw", "--json")
    assert (made.code, made.json["table_version"]) == (0, 5)
    assert run("show", lake, "sales|items|5|raw|deltacat", "--json").json["kind"] == "stream"
    (tmp_path / "a.csv").write_text("id\n1\n")
    added = run("ingest", lake, "sales|items|5", str(tmp_path / "a.csv"), "--author", "loader", "--json")
    assert (added.code, added.json["table"]) == (0, "sales.items.version_5")
    assert [one["author"] for one in run("deltas", lake, "sales|items|5", "--json").json] == ["loader"]


def test_partitions_and_deltas_are_created_and_listed_with_ids_positions_authors_and_properties(
    run: Any, lake: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,area\n1,north\n2,south\n")
    run("create", lake, "sales.visits", "--schema", "id bigint, area string", "--partition-by", "area")
    assert [run(name, lake, "sales.visits").out for name in ("partitions", "deltas")] == [
        "no partitions\n",
        "no deltas\n",
    ]
    made = run("create-partition", lake, "sales.visits", "up", '["north"]')
    assert (made.code, made.out) == (0, "created partition up of sales.visits in version 5\n")
    told = ("--author", "loader", "--delta-property", "source=a.csv", "--position", "40")
    assert run("ingest", lake, "sales.visits", str(tmp_path / "a.csv"), *told).code == 0
    listed = {one["values"][0]: one for one in run("partitions", lake, "sales.visits", "--json").json}
    assert (listed["north"]["partition"], listed["north"]["rows"], listed["south"]["deltas"]) == ("up", 1, 1)
    assert '["south"]' in run("partitions", lake, "sales.visits").out
    deltas = {one["partition"]: one for one in run("deltas", lake, "sales.visits", "--json").json}
    assert deltas["up"] | {"bytes": 0} == {
        "partition": "up", "position": 40, "type": "append", "files": 1, "rows": 1, "bytes": 0,
        "author": "loader", "properties": {"source": "a.csv"},
    }  # fmt: skip
    assert "source=a.csv" in run("deltas", lake, "sales.visits").out
    refused = run("ingest", lake, "sales.visits", str(tmp_path / "a.csv"), *told, "--mode", "overwrite")
    assert (refused.code, "takes no author" in refused.err) == (2, True)
    assert run("create-partition", lake, "sales.visits", "down", "south").code == 2
