from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError
from mangrove.storage.opening import open_store
from mangrove.storage.uri import RootUri, expand_location, parse_root_uri


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("/data/lake", "file:///data/lake/"),
        ("/data/lake/", "file:///data/lake/"),
        ("/", "file:///"),
        ("file:///data/lake", "file:///data/lake/"),
        ("file:///data/my%20lake", "file:///data/my%20lake/"),
        ("/data/my lake", "file:///data/my%20lake/"),
        ("/data/100%", "file:///data/100%25/"),
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/", "s3://bucket/"),
        ("s3://bucket/a/b", "s3://bucket/a/b/"),
        ("S3://bucket/a", "s3://bucket/a/"),
        ("gs://bucket/a", "gs://bucket/a/"),
        ("az://container/a", "az://container/a/"),
        ("abfss://c@acct.dfs.core.windows.net/a", "abfss://c@acct.dfs.core.windows.net/a/"),
        ("memory://name", "memory://name/"),
        ("memory://name/lake", "memory://name/lake/"),
    ],
)
def test_a_root_has_one_spelling_that_ends_in_one_slash(location: str, text: str) -> None:
    assert parse_root_uri(location).text == text
    assert parse_root_uri(text) == parse_root_uri(location)


@pytest.mark.parametrize(
    "location",
    [
        "",
        "..",
        "a/../b",
        "/data/../lake",
        "/data/./lake",
        "/data//lake",
        "/data/lake//",
        "//data",
        "//",
        "file:///data/../lake",
        "file:///data//lake",
        "file:///data/%2e%2e/lake",
        "file:///a%2Fb",
        "file:///a%00b",
        "file:///a%zz",
        "file:///a%ff",
        "file://host/data",
        "file:/data",
        "s3:/bucket",
        "s3://",
        "s3:///a",
        "s3://bucket//a",
        "s3://bucket/a//",
        "s3://bucket/../a",
        "s3://bucket/a?versions",
        "s3://bucket/a#b",
        "abfss://container/a",
        "hdfs://host/a",
        "https://host/a",
        "/data/a\0b",
        "/data/\ud800",
    ],
)
def test_a_root_that_a_path_evaluation_would_change_is_refused(location: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_root_uri(location)


def test_a_password_in_a_root_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        parse_root_uri("s3://user:secret@bucket/a")
    assert "secret" not in str(refusal.value)


def test_the_error_for_a_relative_folder_names_the_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=str(tmp_path / "lake")):
        parse_root_uri("./lake")


def test_a_relative_folder_is_taken_from_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_root_uri("some/lake").path == f"{tmp_path}/some/lake/"
    assert parse_root_uri(Path("some/lake")) == parse_root_uri(tmp_path / "some" / "lake")


def test_paths_are_expanded_as_in_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for location in ("lake", "./lake", f"../{tmp_path.name}/lake", "~/lake", Path("./lake"), f"{tmp_path}//lake/"):
        assert open_store(location).uri == f"file://{tmp_path}/lake/"


def test_the_error_names_an_unknown_user() -> None:
    with pytest.raises(InvalidInputError, match="nosuchuser"):
        expand_location("~nosuchuser/lake", "/data")


def test_the_parts_are_decoded() -> None:
    root = parse_root_uri("abfss://data@account.dfs.core.windows.net/a%20b/ü")
    assert (root.container, root.account, root.path) == ("data", "account", "a b/ü/")
    assert parse_root_uri("az://data/a").account is None


SEGMENTS = st.text(st.characters(exclude_characters="/", exclude_categories=("Cc", "Cs")), min_size=1).filter(
    lambda segment: segment not in {".", ".."}
)


@given(st.lists(SEGMENTS, min_size=1, max_size=4), st.sampled_from(["s3", "gs", "az", "memory"]))
def test_every_root_uri_round_trips(segments: list[str], scheme: str) -> None:
    root = RootUri(scheme, "bucket", "/".join(segments) + "/")
    assert parse_root_uri(root.text) == root
    folder = RootUri("file", "", "/" + "/".join(segments) + "/")
    assert parse_root_uri(folder.text) == folder
    assert parse_root_uri(folder.path) == folder


@pytest.mark.parametrize("location", ["file://", "~/lake", "~", None, 5, b"x"])
def test_an_invalid_root_is_rejected(location: object) -> None:
    with pytest.raises(InvalidInputError):
        parse_root_uri(location)  # type: ignore[arg-type]
