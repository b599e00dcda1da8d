"""Two snapshots differ by the files that are alive in one of them alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.typedef import Record

from mangrove.errors import InvalidInputError
from mangrove.iceberg.commit.file_changes import FileChanges, diff_manifests

Manifests = dict[str, dict[str, ManifestEntryStatus]]


def listed_file(address: str, content: DataFileContent = DataFileContent.DATA) -> DataFile:
    return DataFile.from_args(
        content=content, file_path=address, file_format=FileFormat.PARQUET, partition=Record(), record_count=1,
        file_size_in_bytes=1,
    )  # fmt: skip


def manifest_of(path: str) -> ManifestFile:
    return ManifestFile.from_args(manifest_path=path, partition_spec_id=3, content=ManifestContent.DATA)


def differing(before: Manifests, after: Manifests) -> tuple[FileChanges, list[str]]:
    """Return the changes, and which manifests were read for them."""
    read: list[str] = []

    def entries_of(manifest: ManifestFile) -> list[ManifestEntry]:
        read.append(manifest.manifest_path)
        held = {**before, **after}[manifest.manifest_path]
        return [
            ManifestEntry.from_args(status=status, data_file=listed_file(address)) for address, status in held.items()
        ]

    changes = diff_manifests([manifest_of(path) for path in before], [manifest_of(path) for path in after], entries_of)
    return changes, read


@given(st.data())
def test_file_changes_are_derived_from_live_files_however_manifests_were_merged(data: st.DataObject) -> None:
    names = [f"f{number}" for number in range(8)]
    kept = data.draw(st.sets(st.sampled_from(names)))
    was = data.draw(st.sets(st.sampled_from(names))) - kept
    now = data.draw(st.sets(st.sampled_from(names))) - kept
    status = st.sampled_from([ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING])
    shared: Manifests = {"shared": {name: data.draw(status) for name in kept}}
    before: Manifests = {**shared, "old": {name: data.draw(status) for name in was}}
    after: Manifests = {**shared}
    for name in sorted(now):
        after.setdefault(f"new{data.draw(st.integers(0, 2))}", {})[name] = data.draw(status)
    for name in sorted(was - now):
        after.setdefault("gone", {})[name] = ManifestEntryStatus.DELETED
    changes, read = differing(before, after)
    assert {file.address for file in changes.added} == now - was
    assert {file.address for file in changes.removed} == was - now
    assert {file.spec_id for file in (*changes.added, *changes.removed)} <= {3}
    assert "shared" not in read


def test_a_file_that_is_listed_twice_is_refused() -> None:
    added = ManifestEntryStatus.ADDED
    with pytest.raises(InvalidInputError, match="is listed twice"):
        differing({}, {"a": {"f": added}, "b": {"f": added}})


def test_file_changes_are_selected_by_content_type() -> None:
    kinds = list(DataFileContent)
    found, _ = differing({}, {"a": {kind.name: ManifestEntryStatus.ADDED for kind in kinds}})
    assert len(found.of(DataFileContent.DATA).added) == len(kinds)
    assert found.of(DataFileContent.POSITION_DELETES) == FileChanges()
