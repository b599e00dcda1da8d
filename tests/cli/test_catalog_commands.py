"""The commands about what is in a lakehouse do what they say, on a real lakehouse in a folder."""

from pathlib import Path
from typing import Any

import pytest

import mangrove

SCHEMA = "id bigint not null, customer string comment 'who', amount decimal(10,2), ts timestamp"


def test_init_creates_a_lakehouse_that_the_library_opens(run: Any, tmp_path: Path) -> None:
    done = run("init", str(tmp_path / "lake"), "--name", "mine", "--order", "64", "--keep", "30d", "--json")
    assert done.code == 0
    settings = mangrove.open(tmp_path / "lake").settings
    assert (settings.name, settings.order, settings.maximum_version_age_millis) == ("mine", 64, 30 * 86_400_000)
    assert done.json["version"] == 0


@pytest.mark.parametrize("layout", ["tree", "tree-older", "deltacat", "deltacat-2"])
def test_every_layout_can_be_created_filled_and_listed(run: Any, tmp_path: Path, layout: str) -> None:
    place = str(tmp_path / "lake")
    assert run("init", place, "--layout", layout).code == 0
    assert run("create", place, "sales").code == 0
    assert run("create", place, "sales.orders", "--schema", SCHEMA, "--key", "id").code == 0
    assert [entry["name"] for entry in run("ls", place, "sales", "--json").json] == ["sales.orders"]
    assert run("show", place, "sales.orders", "--json").json["keys"] == ["id"]


def test_a_second_init_is_refused_and_changes_nothing(run: Any, lake: str) -> None:
    done = run("init", lake)
    assert done.code == 1
    assert "already" in done.err
    assert mangrove.open(lake).version == 3


def test_ls_lists_namespaces_and_then_tables_and_views(run: Any, lake: str) -> None:
    assert "sales" in run("ls", lake).out
    assert "owner=ana" in run("ls", lake).out
    names = [(entry["name"], entry["kind"]) for entry in run("ls", lake, "sales", "--json").json]
    assert names == [("sales.orders", "managed table"), ("sales.daily", "view")]
    assert len(run("ls", lake, "sales", "--limit", "1", "--json").json) == 1
    assert run("ls", lake, "sales", "--prefix", "da", "--json").json[0]["name"] == "sales.daily"


def test_ls_lists_an_earlier_version(run: Any, lake: str) -> None:
    assert run("ls", lake, "--at", "0", "--json").json == []
    assert [entry["name"] for entry in run("ls", lake, "sales", "--at", "2", "--json").json] == ["sales.orders"]


def test_show_describes_a_table(run: Any, lake: str) -> None:
    facts = run("show", lake, "sales.orders", "--json").json
    assert [(column["name"], column["type"]) for column in facts["columns"]] == [
        ("id", "bigint"),
        ("customer", "string"),
        ("amount", "decimal(10,2)"),
        ("ts", "timestamp"),
    ]
    assert (facts["keys"], facts["partition_by"], facts["data"]["deltas"]) == (["id"], ["days(ts)"], {})
    drawn = run("show", lake, "sales.orders").out
    assert "id (key)" in drawn
    assert "days(ts)" in drawn
    assert "who" in drawn


def test_show_describes_the_lakehouse_a_namespace_and_a_view(run: Any, lake: str) -> None:
    assert run("show", lake, "--json").json["version"] == 3
    assert run("show", lake, "--at", "1", "--json").json["version"] == 1
    assert "7 days" in run("show", lake).out
    assert "owner=ana" in run("show", lake, "sales").out
    assert "select count(*) from sales.orders" in run("show", lake, "sales.daily").out


def test_a_schema_is_read_from_a_file(run: Any, lake: str, tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text(SCHEMA)
    assert run("create", lake, "sales.more", "--schema", f"@{tmp_path}/schema.sql").code == 0
    assert len(run("show", lake, "sales.more", "--json").json["columns"]) == 4
    missing = run("create", lake, "sales.none", "--schema", f"@{tmp_path}/none.sql")
    assert (missing.code, "none.sql" in missing.err) == (2, True)


def test_an_external_table_keeps_its_location(run: Any, lake: str) -> None:
    done = run("create", lake, "sales.old", "--location", "s3://bucket/old/", "--format", "parquet", "--json")
    assert done.json["table"]["location"] == "s3://bucket/old/"
    assert done.json["table"]["kind"] == "external"


def test_if_not_exists_keeps_the_existing_object(run: Any, lake: str) -> None:
    again: list[tuple[str, ...]] = [
        ("sales",),
        ("sales.orders", "--schema", "id int"),
        ("sales.daily", "--view", "select 2"),
    ]
    for words in again:
        assert run("create", lake, *words).code == 1
        assert run("create", lake, *words, "--if-not-exists").code == 0
    assert mangrove.open(lake).version == 3


def test_a_dropped_table_remains_in_earlier_versions(run: Any, lake: str) -> None:
    done = run("drop", lake, "sales.orders", "--json")
    assert (done.json["kind"], done.json["version"]) == ("table", 4)
    assert run("show", lake, "sales.orders").code == 1
    assert run("show", lake, "sales.orders", "--at", "3").code == 0
    assert run("drop", lake, "sales.orders", "--if-exists").code == 0
    assert mangrove.open(lake).version == 4


def test_a_namespace_that_is_not_empty_is_dropped_only_with_cascade(run: Any, lake: str) -> None:
    assert run("drop", lake, "sales").code == 2
    assert run("drop", lake, "sales.orders", "--cascade").code == 2
    assert run("drop", lake, "sales", "--cascade").code == 0
    assert run("ls", lake, "--json").json == []


def test_names_of_namespaces_tables_and_views_can_change(run: Any, lake: str) -> None:
    assert run("rename", lake, "sales.orders", "sales.purchases", "--json").json["kind"] == "table"
    assert run("rename", lake, "sales.daily", "sales.each_day", "--json").json["kind"] == "view"
    assert run("rename", lake, "sales", "shop", "--json").json["kind"] == "namespace"
    names = [entry["name"] for entry in run("ls", lake, "shop", "--json").json]
    assert names == ["shop.purchases", "shop.each_day"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sales.bad", "--schema", "id bigint,, x int"), "schema text"),
        (("sales.bad", "--schema", "id nosuchtype"), "nosuchtype"),
        (("sales.bad",), "no schema"),
        (("sales.bad", "--schema", "id int", "--key", "nope"), "nope"),
        (("bad", "--schema", "id int"), "namespace.bad"),
        (("a.b.c", "--schema", "id int"), "3 part"),
        (("sales.bad", "--view", "select 1", "--schema", "id int"), "--view cannot be combined"),
        (("bad", "--property", "novalue"), "key=value"),
    ],
)
def test_invalid_input_is_rejected_with_a_remedy_and_changes_nothing(
    run: Any, lake: str, words: tuple[str, ...], told: str
) -> None:
    done = run("create", lake, *words)
    assert done.code in (1, 2)
    assert told in done.err
    assert done.err.count("\n") == 1
    assert mangrove.open(lake).version == 3


def test_alias_creates_lists_and_drops_aliases_that_other_commands_accept(run: Any, lake: str) -> None:
    assert run("alias", lake, "--json").json == []
    assert run("alias", lake, "sales.purchases", "sales.orders").code == 0
    assert run("alias", lake, "store", "sales", "--json").json == {"alias": "store", "target": "sales", "version": 5}
    assert "sales.purchases" in run("alias", lake).out
    assert run("show", lake, "store.purchases", "--json").json["aliases"] == ["sales.purchases"]
    assert run("show", lake, "store", "--json").json["aliases"] == ["store"]
    refused = run("drop", lake, "sales.purchases")
    assert refused.code == 2
    assert "is an alias of sales.orders" in refused.err
    assert run("alias", lake, "sales.purchases", "--drop").code == 0
    assert [one["name"] for one in run("alias", lake, "--json").json] == ["store"]
    assert run("alias", lake, "sales.purchases").code == 2


@pytest.mark.parametrize("words", [("drop", "sales|orders|1"), ("rename", "sales|orders|1", "sales.other")])
def test_drop_and_rename_refuse_the_canonical_string_of_a_table_version(
    run: Any, lake: str, words: tuple[str, ...]
) -> None:
    command, *names = words
    refused = run(command, lake, *names)
    assert refused.code == 2
    assert "sales|orders|1 is a table version; expected a namespace, table or view" in refused.err
    assert mangrove.open(lake).version == 3


def test_show_describes_the_object_of_any_canonical_string(run: Any, lake: str) -> None:
    assert run("show", lake, "sales|orders", "--json").json["name"] == "sales.orders"
    version = run("show", lake, "sales|orders|1", "--json").json
    assert (version["canonical"], version["kind"]) == ("sales|orders|1", "table version")
    stream = f"sales|orders|1|{version['fields']['latest_stream_id']}|deltacat"
    assert run("show", lake, stream, "--json").json["kind"] == "stream"
    assert stream.split("|")[3] in run("show", lake, stream).out.replace("\n", "").replace(" ", "")
    assert "no table version" not in run("show", lake, "sales|orders|2").out
    assert run("show", lake, "sales|orders|2").code == 1


def test_files_names_inline_rows(run: Any, lake: str) -> None:
    table = mangrove.open(lake).table("sales.orders").alter({"write.inline-rows-max-bytes": "3000"})
    table.append([{"id": 1}])
    assert "inline rows" in run("files", lake, "sales.orders").out


def test_a_table_without_a_schema_is_created_filled_listed_and_read(run: Any, lake: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,x\n")
    (tmp_path / "b.png").write_bytes(b"png")
    assert run("create", lake, "sales.raw", "--schemaless").code == 0
    assert run("create", lake, "sales.other", "--schemaless", "--schema", "id int").code == 2
    assert run("ingest", lake, "sales.raw", str(tmp_path / "a.csv"), "--json").json["files"] == 1
    assert run("read", lake, "sales.raw", "--json").json == [{"id": 1, "name": "x"}]
    assert run("ingest", lake, "sales.raw", str(tmp_path / "b.png")).code == 0
    assert run("ingest", lake, "sales.raw", str(tmp_path / "b.png"), "--mode", "upsert").code == 2
    listed = [(one["type"], one["bytes"]) for one in run("files", lake, "sales.raw", "--json").json]
    assert listed == [("text/csv", 12), ("image/png", 3)]
    assert "image/png" in run("files", lake, "sales.raw").out
    assert "no files" in run("files", lake, "sales.orders").out
    assert run("read", lake, "sales.raw").code == 2
    location = run("files", lake, "sales.raw", "--json").json[1]["location"]
    assert run("remove-files", lake, "sales.raw", location, "--json").json["removed"] == [location]
    assert run("remove-files", lake, "sales.raw", location).code == 1
    assert run("read", lake, "sales.raw", "--json").json == [{"id": 1, "name": "x"}]


def test_alter_changes_properties_descriptions_and_columns_in_one_commit(run: Any, lake: str) -> None:
    before = mangrove.open(lake).version
    done = run(
        "alter", lake, "sales.orders", "--property", "owner=bo", "--description", "all of them",
        "--add-column", "price decimal(8, 2)", "--rename-column", "customer=buyer", "--drop-column", "amount", "--json",
    )  # fmt: skip
    assert done.json == {"altered": "sales.orders", "kind": "table", "version": before + 1}
    table = mangrove.open(lake).table("sales.orders")
    assert (table.properties["owner"], table.description) == ("bo", "all of them")
    assert table.schema is not None
    assert table.schema.names == ("id", "buyer", "ts", "price")


def test_alter_changes_namespaces_views_and_the_lakehouse(run: Any, lake: str) -> None:
    assert run("alter", lake, "sales", "--remove", "owner", "--description", "what we sell").code == 0
    assert run("alter", lake, "sales.daily", "--property", "owner=bo").code == 0
    assert run("alter", lake, "--keep", "30d", "--property", "team=shop").code == 0
    opened = mangrove.open(lake)
    assert (dict(opened.namespace("sales").properties), opened.namespace("sales").description) == ({}, "what we sell")
    assert opened.view("sales.daily").properties["owner"] == "bo"
    assert opened.settings.maximum_version_age_millis == 30 * 24 * 3600 * 1000
    assert opened.settings.properties["team"] == "shop"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sales",), "nothing to change"),
        (("sales", "--keep", "3d"), "remove NAME"),
        (("--description", "x"), "NAME"),
        (("sales", "--add-column", "x int"), "only tables have columns"),
        (("sales.orders", "--property", "a=b", "--drop-column", "nosuch"), "nosuch"),
        (("sales.orders", "--add-column", "x"), "x"),
        (("sales.nosuch", "--property", "a=b"), "nosuch"),
    ],
)
def test_alter_rejects_invalid_arguments_and_changes_nothing(
    run: Any, lake: str, words: tuple[str, ...], message: str
) -> None:
    before = mangrove.open(lake).version
    done = run("alter", lake, *words)
    assert (done.code in (1, 2), done.out, done.err.count("\n")) == (True, "", 1), done.err
    assert message in done.err
    assert mangrove.open(lake).version == before
