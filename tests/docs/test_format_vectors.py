"""The golden values on the pages about formats are what the code writes, some of them recomputed by plain Python."""

import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from tests.docs.page_code import blocks_of

from mangrove.layouts.deltacat.msgpack_maps import compute_checksum, encode_with_checksum
from mangrove.layouts.deltacat.paths import guard_path
from mangrove.layouts.deltacat.revision import DELTACAT_2, digest_of
from mangrove.layouts.deltacat.transaction_log import flat_log_path, minute_log_path
from mangrove.layouts.tree import node_rows, revision, root
from mangrove.layouts.tree.definition_files import append_checksum, encode_inline_pointer
from mangrove.layouts.tree.keys import NEWER_KEYS, OLDER_KEYS, NameSizes
from mangrove.layouts.tree.paths import RootNames, hashed_path
from mangrove.model.locators import Kind

FORMATS = Path(__file__).parents[2] / "docs" / "format"
KINDS = {kind.word: kind for kind in Kind}


def golden(page: str) -> Any:
    """Return the values that a page gives."""
    [block] = [block for block in blocks_of((FORMATS / page).read_text("utf-8")) if block.language == "json"]
    return json.loads(block.code)


@pytest.fixture(scope="module")
def tree() -> Any:
    return golden("tree.md")


@pytest.fixture(scope="module")
def deltacat() -> Any:
    return golden("deltacat.md")


def test_roots_are_named_by_the_binary_digits_of_their_version_last_first(tree: Any) -> None:
    assert tree["roots"]
    for version, path in tree["roots"].items():
        assert path == f"_{format(int(version), '032b')[::-1]}.ipc"
        assert RootNames(digits=32).path(int(version)) == path


def test_other_files_of_the_tree_begin_with_a_hash_of_their_name(tree: Any) -> None:
    assert tree["paths"] == {original: hashed_path(original) for original in tree["paths"]}


def test_tree_keys_are_padded_names_ids_and_numbers(tree: Any) -> None:
    assert tree["keys"]
    for one in tree["keys"]:
        assert NEWER_KEYS.key_of(KINDS[one["kind"]], one["parts"], NameSizes(8, 8)) == one["key"]


def test_tree_keys_of_the_older_revision_end_with_their_kind(tree: Any) -> None:
    assert tree["older_keys"]
    for one in tree["older_keys"]:
        assert OLDER_KEYS.key_of(KINDS[one["kind"]], one["parts"], NameSizes(8, 8)) == one["key"]


def test_the_checksum_of_a_definition_covers_its_kind_and_bytes(tree: Any) -> None:
    for one in tree["seals"]:
        definition = bytes.fromhex(one["definition"])
        assert append_checksum(definition, KINDS[one["kind"]]).hex() == one["file"]
        marked = bytes.fromhex("f0ff0701") + definition
        crc = zlib.crc32(one["kind"].encode() + marked)
        assert one["file"] == marked.hex() + "fdff07" + crc.to_bytes(4, "little").hex()


def test_a_small_definition_is_its_own_pointer(tree: Any) -> None:
    for one in tree["inline"]:
        assert encode_inline_pointer(bytes.fromhex(one["definition"])) == one["value"]


def test_names_of_a_catalog_are_mapped_under_their_sha1(deltacat: Any) -> None:
    assert deltacat["digests"]
    for canonical, digest in deltacat["digests"].items():
        assert digest_of(canonical) == digest == hashlib.sha1(canonical.encode()).hexdigest()


def test_numbered_files_of_revision_2_are_stored_two_folders_deeper(deltacat: Any) -> None:
    found = {number: DELTACAT_2.numbered_path("rev", int(number), "x") for number in deltacat["fan_out"]}
    assert found == deltacat["fan_out"]


def test_the_path_of_a_transaction_log_depends_on_its_revision(deltacat: Any) -> None:
    paths = {"seed": flat_log_path, "2": minute_log_path}
    assert {one["revision"] for one in deltacat["logs"]} == set(paths)
    for one in deltacat["logs"]:
        assert paths[one["revision"]](one["transaction"], one["end"]) == one["path"]


def test_guards_are_numbered_and_have_checksums(deltacat: Any) -> None:
    assert {version: guard_path(int(version)) for version in deltacat["guards"]} == deltacat["guards"]
    for one in deltacat["sealed"]:
        outer = msgpack.unpackb(bytes.fromhex(one["file"]))
        assert encode_with_checksum(one["map"]).hex() == one["file"]
        assert outer["crc32"] == zlib.crc32(outer["content"])
        assert msgpack.unpackb(outer["content"]) == one["map"]
    assert {data: compute_checksum(bytes.fromhex(data)) for data in deltacat["checksums"]} == deltacat["checksums"]


def test_every_system_row_of_a_root_is_documented() -> None:
    page = (FORMATS / "tree.md").read_text("utf-8")
    told = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\| (`.+?) \|", page, re.MULTILINE))))
    made = {
        value
        for module in (node_rows, revision, root)
        for name, value in vars(module).items()
        if name.strip("_").isupper()
        and isinstance(value, str)
        and re.fullmatch("[a-z]+(?:_[a-z]+)+|transaction", value)
    }
    # Those of the older format revision are told in its section.
    assert made - told - {"last_transaction", "n_messages"} == set()
