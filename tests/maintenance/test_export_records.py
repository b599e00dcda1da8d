"""The names of exports and what is recorded for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.maintenance.export_records import (
    ExportRecord,
    check_export_name,
    decode_export_record,
    encode_export_record,
    find_export,
    format_export_location,
    list_exports,
)
from mangrove.maintenance.version_files import filter_versions_with_file, is_version_file, version_paths_of
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore


def recording(**locations: str) -> LakehouseSettings:
    return LakehouseSettings(exported_snapshots=locations)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["", "s3://archive/lake/", "file:///a%20b/"]))
def test_the_version_of_an_export_is_parsed_from_its_location(version: int, uri: str) -> None:
    for root in (None, *version_paths_of(version)):
        settings = recording(kept=format_export_location(uri, version, root))
        assert find_export(settings, "kept").version == version


def test_the_location_of_an_export_names_its_root_node() -> None:
    shorter = version_paths_of(100)[0]
    assert format_export_location("s3://archive/lake/", 100, shorter) == (
        "s3://archive/lake/_00100110000000000000000000000000.ipc"
    )


def test_exports_are_listed_by_name() -> None:
    settings = recording(b=format_export_location("", 2, None), a=format_export_location("", 1, None))
    assert [(export.name, export.version) for export in list_exports(settings)] == [("a", 1), ("b", 2)]


def test_the_error_for_an_unknown_export_lists_the_existing_ones() -> None:
    with pytest.raises(NotFoundError, match="year-end"):
        find_export(LakehouseSettings(exported_snapshots={"year-end": "#version=1"}), "other")
    with pytest.raises(NotFoundError, match="there are no exports"):
        find_export(LakehouseSettings(), "other")
    many = {"table/1/kept": "#version=1"} | {f"e{number}": "#version=1" for number in range(30)}
    with pytest.raises(NotFoundError, match=r"existing exports: e0, .*e26, …$"):
        find_export(LakehouseSettings(exported_snapshots=many), "other")


def test_an_export_location_without_a_version_is_rejected() -> None:
    with pytest.raises(FormatError, match="elsewhere"):
        list_exports(recording(odd="s3://elsewhere/root.ipc"))


@pytest.mark.parametrize("name", ["", "41", "2026-11-01", " year", "year ", "-x", "y" * 201])
def test_an_export_name_that_looks_like_a_version_or_time_is_rejected(name: str) -> None:
    with pytest.raises(InvalidInputError):
        check_export_name(name)


@pytest.mark.parametrize("name", ["year-end", "Jahresende 2026", "été"])
def test_an_export_name_that_starts_with_a_letter_is_accepted(name: str) -> None:
    check_export_name(name)


def test_an_export_record_round_trips() -> None:
    record = ExportRecord("s3://b/lake/", "été", 7, "partial", ("a.b", "c"))
    assert decode_export_record(encode_export_record(record), "here") == record


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"source": 1, "name": "", "version": "", "mode": "", "tables": []}']
)
def test_a_damaged_record_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_export_record(data, "here")


def test_version_files_are_distinguished_from_other_files() -> None:
    for path in (*version_paths_of(0), *version_paths_of(2**32), "_latest_hint.txt", "mangrove/latest"):
        assert is_version_file(path)
    for path in (
        "_lakehouse_def_1.binpb",
        "mangrove/version/1.mpk",
        "mangrove/node/1.mpk",
        "data/a.parquet",
        "_01.ipc",
    ):
        assert not is_version_file(path)


@given(st.integers(0, 40), st.integers(0, 40))
def test_versions_without_a_file_are_left_out(without: int, having: int) -> None:
    store = CountingStore(MemoryStore())
    versions = range(without + having)
    store.put_many({version_paths_of(version)[-1]: b"" for version in versions[without:]})
    before = store.requests
    assert list(filter_versions_with_file(store, versions)) == list(versions[without:])
    assert (store.requests - before).total <= 3 * 8
