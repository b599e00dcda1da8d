"""Where files of the DeltaCAT layout lie, with golden values from the seed and from a catalog of DeltaCAT 2.0."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError
from mangrove.layouts.deltacat.paths import NumberedFile, guard_path, node_path, parse_numbered_path, version_of_guard
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, DeltaCatRevision, digest_of, find_revision
from mangrove.layouts.deltacat.transaction_log import (
    LoggedTransaction,
    build_transaction_id,
    flat_log_path,
    minute_log_path,
    parse_log_path,
    start_time_of,
)

_UUID = "20444dca-7e3d-4dd2-af70-23b8bc890966"


@pytest.mark.parametrize(
    ("revision", "parent", "parts", "digest"),
    [
        (SEED, "", ("MyNamespace",), "bf8e02bda063f4de2378ec304938c7b21fdf873f"),
        (SEED, "MyNamespace", ("MyTable",), "1caf260945a7fc2b42a65815b669ca2526ecd126"),
        (DELTACAT_2, "", ("sales",), "59248c4dae276a021cb296d2ee0e6a0c962a8d7f"),
        (DELTACAT_2, "sales", ("orders",), "9658403816409e66eba2175f8eff8b53a9681573"),
        (DELTACAT_2, "", ("deltacat",), "8783dc5c5ecd47bd6265e89a5294778a579bf43b"),
        (
            DELTACAT_2,
            "",
            ("None", "deadbeef-7277-49a4-a195-fdc8ed235d42"),
            "618205b78748d2b5cc6ff3344257f6b1a0335c29",
        ),
    ],
)
def test_a_name_is_mapped_in_the_folder_of_its_digest(
    revision: DeltaCatRevision, parent: str, parts: tuple[str, ...], digest: str
) -> None:
    assert digest_of(revision.canonical(parent, *parts)) == digest


@pytest.mark.parametrize(
    ("number", "folders"),
    [
        (1, "1000000/1000"),
        (999, "1000000/1000"),
        (1000, "1000000/1000"),
        (1001, "1000000/2000"),
        (1_000_000, "1000000/1000000"),
        (1_000_001, "2000000/1000"),
        (1_234_567, "2000000/235000"),
    ],
)
def test_numbered_files_fan_out_in_revision_2_and_are_flat_in_the_seed(number: int, folders: str) -> None:
    assert DELTACAT_2.numbered_path("a/rev", number, "x") == f"a/rev/{folders}/x"
    assert SEED.numbered_path("a/rev", number, "x") == "a/rev/x"


def test_a_revision_file_is_named_as_in_the_seed() -> None:
    file = NumberedFile.of_revision("ns/table", 1, "create", f"1737070822189_{_UUID}")
    path = SEED.numbered_path(file.folder, file.number, file.file_name)
    assert path == f"ns/table/rev/00000000000000000001_create_1737070822189_{_UUID}.mpk"
    assert file.object_folder == "ns/table"


def test_a_mapping_file_is_named_as_in_the_seed() -> None:
    digest = digest_of("MyNamespace")
    path = f"{digest}/00000000000000000002_delete_1737070822189_{_UUID}.my-id"
    file = parse_numbered_path(path)
    assert file == NumberedFile(digest, 2, "delete", f"1737070822189_{_UUID}", "my-id")
    assert file.object_folder is None
    assert SEED.numbered_path(file.folder, file.number, file.file_name) == path


@given(
    number=st.integers(1, 10**19),
    operation=st.sampled_from(["create", "update", "delete", "replace"]),
    revision=st.sampled_from([SEED, DELTACAT_2]),
    start=st.integers(0, 2**63 - 1),
)
def test_a_numbered_path_round_trips(number: int, operation: str, revision: DeltaCatRevision, start: int) -> None:
    file = NumberedFile.of_revision("a/b/1", number, operation, build_transaction_id(start, _UUID))
    assert parse_numbered_path(revision.numbered_path(file.folder, number, file.file_name)) == file


def test_flat_files_are_read_in_revision_2_too() -> None:
    file = parse_numbered_path(f"a/rev/00000000000000000001_create_1_{_UUID}.mpk")
    assert file.object_folder == "a"


@pytest.mark.parametrize("path", ["a/rev/1_create_1_x.mpk", "00000000000000000001_create_1_x.mpk", "a/rev/x", ""])
def test_a_path_that_is_not_numbered_is_rejected(path: str) -> None:
    with pytest.raises(FormatError, match="neither"):
        parse_numbered_path(path)


def test_the_log_of_the_seed_is_flat_and_is_read_with_either_separator() -> None:
    transaction = build_transaction_id(1737070822189, _UUID)
    path = flat_log_path(transaction, 1737070822200)
    assert path == f"txn/1737070822189_{_UUID}"
    assert parse_log_path(path) == LoggedTransaction(transaction, 1737070822189, None)
    assert parse_log_path(f"txn/1737070822189-{_UUID}") == LoggedTransaction(transaction, 1737070822189, None)


def test_the_log_of_revision_2_is_stored_by_minute_and_ends_with_the_end_time() -> None:
    transaction = "1794723907685800020_8d543a2e-051b-4952-97f9-d234d19cd984"
    path = minute_log_path(transaction, 1794723907695047923)
    assert path == f"txn/success/2026/11/15/06/25/{transaction}/1794723907695047923"
    assert parse_log_path(path) == LoggedTransaction(transaction, 1794723907685800020, 1794723907695047923)


def test_a_start_time_is_rounded_to_the_minute_as_in_deltacat() -> None:
    minute_ns = 1_794_723_900_000_000_000  # 06:25:00 exactly
    assert "/06/25/" in minute_log_path(f"{minute_ns - 100}_{_UUID}", minute_ns)
    assert "/06/24/" in minute_log_path(f"{minute_ns - 1_000_000}_{_UUID}", minute_ns)


@pytest.mark.parametrize(
    "path",
    [
        f"txn/running/1_{_UUID}",
        f"txn/failed/2026/11/15/06/25/1_{_UUID}",
        f"txn/success/2026/11/15/06/25/1_{_UUID}",
        "txn/x",
        "a/rev/x",
    ],
)
def test_only_committed_transactions_are_in_the_log(path: str) -> None:
    assert parse_log_path(path) is None


def test_a_transactions_id_has_a_start_and_one_underscore() -> None:
    assert start_time_of(f"5_{_UUID}") == 5
    with pytest.raises(FormatError, match="UUID"):
        build_transaction_id(5, "a_b")
    with pytest.raises(FormatError, match="start time"):
        start_time_of("made")


def test_guard_paths_sort_by_version_and_contain_it() -> None:
    assert guard_path(7) == "mangrove/version/00000000000000000007.mpk"
    assert sorted([guard_path(10), guard_path(9)]) == [guard_path(9), guard_path(10)]
    assert version_of_guard(guard_path(123)) == 123
    assert node_path("x") == "mangrove/node/x.mpk"
    with pytest.raises(FormatError, match="guard"):
        version_of_guard("mangrove/version/7.mpk")


def test_a_format_revision_is_found_by_its_name() -> None:
    assert [find_revision(one.name) for one in (SEED, DELTACAT_2)] == [SEED, DELTACAT_2]
    assert (SEED.layout, DELTACAT_2.layout) == ("deltacat", "deltacat-2")
    with pytest.raises(FormatError, match="'3'"):
        find_revision("3")


@given(st.integers(0, 9_000_000_000_000))
def test_a_transaction_of_mangrove_starts_and_ends_in_the_same_millisecond(millis: int) -> None:
    for revision in (SEED, DELTACAT_2):
        assert revision.start_at(millis) <= revision.end_at(millis) < revision.start_at(millis + 1)
        assert revision.millis_of(revision.end_at(millis)) == millis
