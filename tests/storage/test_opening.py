from pathlib import Path

import pytest

from mangrove.errors import InvalidInputError
from mangrove.storage.cloud import CloudStore
from mangrove.storage.local import LocalStore
from mangrove.storage.opening import open_store


def test_a_local_folder_is_created_by_the_first_write(tmp_path: Path) -> None:
    store = open_store(tmp_path / "lake")
    assert isinstance(store, LocalStore)
    assert [*store.list()] == []
    assert not (tmp_path / "lake").exists()
    store.put("a", b"1")
    assert open_store(f"file://{tmp_path}/lake").read("a") == b"1"


def test_memory_is_shared_by_name() -> None:
    open_store("memory://opening/lake").put("a", b"1")
    assert open_store("memory://opening/lake/").read("a") == b"1"


@pytest.mark.parametrize("uri", ["s3://bucket/lake", "gs://bucket/lake", "az://container/lake"])
def test_a_cloud_opens_without_a_request(uri: str) -> None:
    options = {"account_name": "account"} if uri.startswith("az") else {}
    store = open_store(uri, {**options, "skip_signature": "true"})
    assert isinstance(store, CloudStore)
    assert store.uri == f"{uri}/"


def test_an_azure_account_is_parsed_from_the_uri() -> None:
    store = open_store("abfss://data@account.dfs.core.windows.net/lake", {"skip_signature": "true"})
    assert store.uri == "abfss://data@account.dfs.core.windows.net/lake/"


def test_options_for_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="takes no options, but got region"):
        open_store(tmp_path, {"region": "x"})
