"""The location of a data file stays below its root, as written and as decoded, or it is a full URI."""

import posixpath
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mangrove.errors import FormatError, InvalidInputError
from mangrove.model.manifests import DataFile
from mangrove.model.paths import is_uri


def error_message_of(location: str) -> str:
    with pytest.raises(InvalidInputError) as refusal:
        DataFile(location, 1, 1)
    return str(refusal.value)


@pytest.mark.parametrize(
    "location",
    [
        *("", "/", "/etc/passwd", "//host/a", "..", "../a", "data/..", "data/../../a", "data/./a", "data//a", "data/"),
        *(
            "data/%2e%2e/a",
            "data/%2E./a",
            "data%2f..%2fa",
            "data/a%00",
            "data/a%5cb",
            "data\\..\\a",
            "data/a\0",
            "a\nb",
        ),
        *("file:/etc/passwd", "S3a:/b/a", "data/x://y", "1://a", "://a"),
        *("file:///lake/../secret", "s3://bucket/%2e%2e/a", "s3://../a", "s3://b/a\\b", "s3://b/a%0ab", "file:///a/."),
        *("data/.mangrove-tmp-1", "x" * 256, "/".join("x" * 2000)),
    ],
    ids=lambda location: repr(location[:30]),
)
def test_a_location_outside_the_root_is_rejected_with_the_valid_forms(location: str) -> None:
    refusal = error_message_of(location)
    assert "below the root or a full URI" in refusal
    assert len(refusal) < 400


@pytest.mark.parametrize(
    "location",
    [
        "data/t/a.parquet",
        "a",
        "..a/b..",
        "dätä/ü",
        "data/day=2026-01-01 a/50%25.parquet",
        "data/a%20b",
        "s3://b//a",
        "file:///a",
    ],
)
def test_valid_locations_are_accepted_unchanged(location: str) -> None:
    assert DataFile(location, 1, 1).location == location


@given(st.text(st.sampled_from("ab./%2eE5cfF:\\\0é-"), max_size=12))
@example("a/%2e%2e/b")
@example("..%2f..")
@example("%252e%252e/a")
def test_an_accepted_path_stays_below_the_root_with_and_without_url_decoding(location: str) -> None:
    try:
        DataFile(location, 1, 1)
    except InvalidInputError:
        return
    for reading in (location, unquote(location)):
        if not is_uri(location):
            assert posixpath.normpath(f"/top/{reading}") == f"/top/{reading}"
        assert not {".", ".."} & set(reading.split("/"))


def test_a_file_outside_the_root_has_no_path() -> None:
    assert DataFile("data/a", 1, 1).path == "data/a"
    with pytest.raises(FormatError, match="append the rows"):
        DataFile("s3://bucket/a", 1, 1).path  # noqa: B018 - it is refused when asked for
