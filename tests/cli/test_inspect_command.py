"""Every file of either layout can be inspected, and the tree can be drawn."""

import json
from pathlib import Path
from typing import Any

import pytest

import mangrove
from mangrove.errors import FormatError, InvalidInputError
from mangrove.inspect.files import decode_wire_fields, inspect_file
from mangrove.storage.opening import open_store
from mangrove.storage.port import ObjectInfo

FIXTURES = Path(__file__).parent.parent / "compat" / "fixtures"


def files_of(folder: Path) -> list[Path]:
    # Not a walk: the hint may be written at this moment, and a walk would meet its temporary file.
    return [folder / entry.path for entry in open_store(str(folder)).list() if isinstance(entry, ObjectInfo)]


@pytest.mark.parametrize("layout", ["tree", "tree-older", "deltacat", "deltacat-2"])
def test_every_file_of_every_layout_can_be_inspected(run: Any, tmp_path: Path, layout: str) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=layout)
    for number in range(30):
        lake.create_namespace(f"n{number}")
        lake.create_table(f"n{number}.t", "id bigint not null, note string", keys=["id"])
    del lake
    found = files_of(tmp_path / "lake")
    assert len(found) > 30
    for path in found:
        data = path.read_bytes()
        facts = inspect_file(str(path), data)
        assert "another program" not in facts.what
        assert "MessagePack" not in facts.what
        assert facts.size_bytes == len(data)
    drawn = run("inspect", str(found[0]))
    assert (drawn.code, bool(drawn.out)) == (0, True)


@pytest.mark.parametrize("fixture", ["deltacat-2", "olympia-java", "trinitylake-java"])
def test_files_of_other_programs_can_be_inspected(fixture: str) -> None:
    kinds = set()
    for path in files_of(FIXTURES / fixture):
        parts = path.relative_to(FIXTURES / fixture).parts
        if parts[0] in ("data", "compute", "version"):
            continue
        kinds.add(inspect_file(str(path), path.read_bytes()).what.partition(" ")[0])
    assert len(kinds) >= 3


def test_a_root_node_is_displayed_with_version_system_rows_and_messages(run: Any, lake: str) -> None:
    root = f"{lake}/_11000000000000000000000000000000.ipc"
    drawn = run("inspect", root).out
    for wanted in ("root node of version 3", "previous_root", "create view sales.daily", "table sales orders"):
        assert wanted in drawn
    facts = run("inspect", root, "--json").json
    assert facts["buffer"][0]["key"] == "namespace sales"
    assert facts["fields"]["commit_message"] == "create view sales.daily"


def test_a_guard_is_displayed_with_its_commit_and_decoded_index(run: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "catalog")
    assert run("init", place, "--layout", "deltacat").code == 0
    assert run("create", place, "sales").code == 0
    guard = f"{place}/mangrove/version/00000000000000000001.mpk"
    facts = run("inspect", guard, "--json").json
    assert facts["fields"]["commit"]["message"] == "create namespace sales"
    assert facts["fields"]["log"]["operations"]
    assert "namespace sales" in [row["key"] for row in facts["buffer"]]
    assert '"bytes"' not in run("inspect", guard).out


def test_a_definition_is_displayed_from_its_node_and_from_its_own_file(run: Any, lake: str) -> None:
    names = [f"a_column_with_a_long_name_{number}" for number in range(40)]
    assert run("create", lake, "sales.wide", "--schema", ", ".join(f"{name} int" for name in names)).code == 0
    rows = run("inspect", f"{lake}/_11000000000000000000000000000000.ipc", "--json").json["buffer"]
    (inside,) = [row["definition"] for row in rows if row["key"].startswith("table version")]
    assert [column["name"] for column in inside["schema"]["columns"]] == ["id", "customer", "amount", "ts"]
    (path,) = Path(lake).rglob("*tableversion*.binpb")
    facts = run("inspect", str(path), "--json").json
    assert facts["what"] == "definition of a table version"
    assert [column["name"] for column in facts["fields"]["schema"]["columns"]] == names


def test_the_error_names_a_modified_definition(run: Any, lake: str) -> None:
    schema = ", ".join(f"a_column_with_a_long_name_{number} int" for number in range(40))
    assert run("create", lake, "sales.wide", "--schema", schema).code == 0
    (path,) = Path(lake).rglob("*tableversion*.binpb")
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    done = run("inspect", str(path))
    assert (done.code, path.name in done.err) == (1, True)


def test_an_unreadable_hint_is_reported_as_harmless(run: Any, tmp_path: Path) -> None:
    (tmp_path / "_latest_hint.txt").write_text("?")
    assert "harmless" in run("inspect", f"{tmp_path}/_latest_hint.txt").out


def test_a_damaged_node_is_an_error_that_names_it(run: Any, lake: str) -> None:
    path = Path(lake) / "_00000000000000000000000000000000.ipc"
    path.write_bytes(path.read_bytes()[:200])
    done = run("inspect", str(path))
    assert (done.code, path.name in done.err) == (1, True)


def test_a_file_that_belongs_to_no_layout_is_rejected(run: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert run("inspect", str(tmp_path / "notes.txt")).code == 2
    assert run("inspect", str(tmp_path / "missing.ipc")).code == 1
    assert run("inspect", "s3://").code == 2
    with pytest.raises(InvalidInputError, match="Parquet"):
        inspect_file("/lake/data/x.parquet", b"PAR1....PAR1")


def test_a_message_of_another_program_is_displayed_by_its_fields() -> None:
    inner = bytes([0x0A, 0x01, 0x00])
    data = bytes([0x08, 0x05, 0x12, len(inner)]) + inner + bytes([0x1D, 1, 2, 3, 4])
    assert decode_wire_fields(data, "here") == [
        {"field": 1, "value": 5},
        {"field": 2, "value": [{"field": 1, "value": "0x00"}]},
        {"field": 3, "value": "0x01020304"},
    ]
    with pytest.raises(FormatError, match="here"):
        decode_wire_fields(b"\xff\xff", "here")


def test_the_tree_is_drawn_with_fill_and_buffers(run: Any, tmp_path: Path) -> None:
    place = tmp_path / "lake"
    lake = mangrove.create(place)
    with lake.transaction() as transaction:
        for number in range(300):
            transaction.create_namespace(f"n{number:03}")
    lake.create_namespace("last")
    drawn = run("tree", str(place), "--width", "2").out
    assert "root of version 2" in drawn
    assert "of 127 keys" in drawn
    assert "messages" in drawn
    root = run("tree", str(place), "--json").json["root"]
    assert root["children"] == len(root["below"]) >= 2
    assert all(node["keys"] <= node["keys_max"] == 127 for node in root["below"])
    assert run("tree", str(place), "--depth", "0", "--json").json["root"]["below"] == []
    assert run("tree", str(place), "--at", "0", "--json").json["root"]["keys"] == 0


def test_the_index_of_the_other_layout_is_drawn_too(run: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    run("init", place, "--layout", "deltacat")
    run("create", place, "sales")
    found = json.loads(run("tree", place, "--json").out)
    assert found["root"]["messages"] > 0
