import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.s3_server import Fault, S3Server

import mangrove
from mangrove.errors import InvalidInputError, StorageError
from mangrove.storage.cloud import CloudStore, build_storage_error
from mangrove.storage.cloud_client import build_clients, load_profile_options
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri
from mangrove.testing.store_contract import StoreContract, list_paths


@pytest.fixture
def server() -> Iterator[S3Server]:
    with S3Server() as started:
        yield started


class TestCloudStoreOnTheSmallServer(StoreContract):
    @pytest.fixture
    def store(self, server: S3Server) -> Store:
        return open_store("s3://bucket/some/lake", server.options)


class TestCloudStoreThatTrustsTheOrderOfListings(StoreContract):
    @pytest.fixture
    def store(self, server: S3Server) -> Store:
        return open_store("s3://bucket", {**server.options, "unsorted_listing": "false"})


class TestCloudStoreInTheDialectOfGoogle(StoreContract):
    @pytest.fixture
    def store(self, server: S3Server) -> Store:
        return open_store("gs://bucket/some/lake", {"endpoint": server.endpoint, "bearer_token": "token"})


def cloud(server: S3Server, pauses: list[float] | None = None, **options: str) -> CloudStore:
    """Return a store that does not wait between attempts, and for an answer as long as a busy machine may need."""
    root = parse_root_uri("s3://bucket/lake")
    waited = [] if pauses is None else pauses
    return CloudStore(root, build_clients(root, {**server.options, "timeout": "120s", **options}), waited.append)


def test_a_create_whose_response_was_lost_is_recognized_as_successful(server: S3Server) -> None:
    server.fail_next(Fault("PUT", "lose answer"))
    assert cloud(server).create("a", b"mine") is True
    assert server.objects == {"lake/a": b"mine"}
    assert server.requests == {"PUT": 1, "GET": 1}


def test_a_create_that_never_arrived_is_retried(server: S3Server) -> None:
    server.fail_next(Fault("PUT", "lose request"))
    pauses: list[float] = []
    assert cloud(server, pauses).create("a", b"mine") is True
    assert server.requests == {"PUT": 2, "GET": 1}
    assert len(pauses) == 1


def test_the_outcome_of_a_timed_out_create_is_determined_by_reading_it_back(server: S3Server) -> None:
    # On a busy machine another request may take longer than that too; no number of requests is claimed.
    server.fail_next(Fault("PUT", "stall"))
    assert cloud(server, timeout="500ms").create("a", b"mine") is True
    server.fail_next(Fault("PUT", "stall before"))
    assert cloud(server, timeout="500ms").create("b", b"mine") is True
    assert server.objects == {"lake/a": b"mine", "lake/b": b"mine"}
    assert server.faults_left == 0


def test_a_concurrent_create_that_won_is_detected_despite_a_lost_response(server: S3Server) -> None:
    server.objects["lake/a"] = b"rival"
    server.fail_next(Fault("PUT", "lose answer"))
    assert cloud(server).create("a", b"mine") is False
    assert server.objects == {"lake/a": b"rival"}


def test_status_412_means_that_the_create_lost(server: S3Server) -> None:
    server.objects["lake/a"] = b"rival"
    assert cloud(server).create("a", b"mine") is False
    assert server.requests["PUT"] == 1


def test_status_409_for_a_free_path_is_retried(server: S3Server) -> None:
    server.fail_next(*[Fault("PUT", "refuse", 409, "ConditionalRequestConflict")] * 3)
    pauses: list[float] = []
    assert cloud(server, pauses).create("a", b"mine") is True
    assert server.requests["PUT"] == 4
    assert pauses == sorted(pauses)
    assert len(pauses) == 3


def test_status_409_for_an_existing_path_means_that_the_create_lost(server: S3Server) -> None:
    server.objects["lake/a"] = b"rival"
    server.fail_next(Fault("PUT", "refuse", 409, "ConditionalRequestConflict"))
    assert cloud(server).create("a", b"mine") is False


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_throttled_create_is_retried(server: S3Server, status: int) -> None:
    server.fail_next(*[Fault("PUT", "refuse", status, "SlowDown")] * 2)
    assert cloud(server).create("a", b"mine") is True
    assert server.requests["PUT"] == 3


def test_a_permanently_throttled_create_ends_with_an_unknown_outcome(server: S3Server) -> None:
    server.fail_next(*[Fault("PUT", "refuse")] * 50)
    with pytest.raises(StorageError, match=r"throttles requests.*unknown whether"):
        cloud(server).create("a", b"mine")
    assert server.requests["PUT"] == 12


def test_a_create_whose_outcome_cannot_be_read_is_reported_as_unknown(server: S3Server) -> None:
    server.fail_next(Fault("PUT", "lose answer"), Fault("GET", "refuse", 403, "AccessDenied"))
    with pytest.raises(StorageError, match=r"credentials.*unknown whether"):
        cloud(server).create("a", b"mine")


@pytest.mark.parametrize("status", [429, 503])
def test_throttled_reads_and_puts_are_repeated(server: S3Server, status: int) -> None:
    store = cloud(server)
    server.fail_next(Fault("PUT", "refuse", status))
    store.put("a", b"1")
    server.fail_next(Fault("GET", "refuse", status))
    assert store.read("a") == b"1"
    server.fail_next(Fault("HEAD", "refuse", status))
    assert store.size("a") == 1
    server.fail_next(Fault("LIST", "refuse", status))
    assert list_paths(store) == ["a"]
    server.fail_next(Fault("POST", "refuse", status))
    store.delete_many(["a"])
    assert server.objects == {}
    assert server.faults_left == 0


@pytest.mark.parametrize(("status", "code"), [(400, "RequestTimeout"), (403, "AccessDenied"), (404, "NoSuchKey")])
@pytest.mark.parametrize("unsorted", ["true", "false"])
def test_an_error_with_a_truncated_body_is_retried(server: S3Server, status: int, code: str, unsorted: str) -> None:
    store = cloud(server, unsorted_listing=unsorted)
    server.fail_next(*[Fault("PUT", "cut refusal", status, code)] * 2)
    store.put("a", b"123")
    reads: list[Callable[[], bytes | None]] = [
        lambda: store.read("a"),
        lambda: store.read("a", 0, 3),
        lambda: store.read_many(["a"])[0],
    ]
    for read in reads:
        server.fail_next(*[Fault("GET", "cut refusal", status, code)] * 2)
        assert read() == b"123"
    server.fail_next(Fault("GET", "cut refusal", status, code))
    assert store.read("a", 1) == b"23"
    server.fail_next(*[Fault("LIST", "cut refusal", status, code)] * 2)
    assert list_paths(store) == ["a"]
    server.fail_next(*[Fault("LIST", "cut refusal", status, code)] * 2)
    assert [entry.path for entry in store.list(delimiter=True)] == ["a"]
    server.fail_next(*[Fault("POST", "cut refusal", status, code)] * 2)
    store.delete_many(["a"])
    assert server.objects == {}
    assert server.faults_left == 0


def test_a_missing_object_whose_404_is_truncated_is_missing(server: S3Server) -> None:
    store = cloud(server)
    for method in ("GET", "HEAD"):
        server.fail_next(Fault(method, "cut answer"))
    assert store.read_many(["a"]) == [None]
    assert store.size("a") is None
    assert server.faults_left == 0


def test_the_outcome_of_a_create_with_a_truncated_error_is_determined_by_reading_it_back(server: S3Server) -> None:
    server.fail_next(Fault("PUT", "cut refusal", 404), Fault("GET", "cut answer"), Fault("GET", "cut answer"))
    assert cloud(server).create("a", b"mine") is True
    assert server.requests == {"PUT": 2, "GET": 3}
    server.fail_next(Fault("PUT", "cut answer"), Fault("GET", "cut refusal", 404))
    assert cloud(server).create("a", b"other") is False
    assert server.objects == {"lake/a": b"mine"}
    assert server.faults_left == 0


@pytest.mark.parametrize("unsorted", ["true", "false"])
def test_a_listing_with_a_truncated_page_is_continued_and_names_each_object_once(
    server: S3Server, unsorted: str
) -> None:
    server.objects |= {f"lake/{number:05}": b"" for number in range(2500)}
    store = cloud(server, unsorted_listing=unsorted)
    server.fail_next(Fault("LIST", "none"), *[Fault("LIST", "cut answer")] * 2)
    assert list_paths(store) == [f"{number:05}" for number in range(2500)]
    assert server.faults_left == 0


def test_permanently_truncated_responses_end_in_an_error(server: S3Server) -> None:
    store = cloud(server, retries_max="2")
    server.fail_next(*[Fault("GET", "cut refusal", 404)] * 20)
    with pytest.raises(StorageError, match="could not be read"):
        store.read("a")
    assert server.requests["GET"] == 3


def test_a_lakehouse_opens_and_commits_through_truncated_404s(server: S3Server) -> None:
    mangrove.create("s3://bucket/lake", storage_options=server.options)
    server.fail_next(*[Fault("GET", "cut refusal", 404, "NoSuchKey")] * 2)
    lake = mangrove.open("s3://bucket/lake", storage_options=server.options)
    server.fail_next(Fault("GET", "cut refusal", 404, "NoSuchKey"), Fault("PUT", "cut refusal", 404, "NoSuchKey"))
    lake.create_namespace("shop")
    assert mangrove.open("s3://bucket/lake", storage_options=server.options).namespace("shop")
    assert server.faults_left == 0


def test_a_stalled_read_is_given_up_and_repeated(server: S3Server) -> None:
    server.objects["lake/a"] = b"1"
    server.fail_next(Fault("GET", "stall"))
    assert cloud(server, read_timeout="500ms", timeout="1h").read("a") == b"1"
    assert server.faults_left == 0
    assert server.requests["GET"] >= 2


def test_a_put_whose_response_was_lost_is_retried(server: S3Server) -> None:
    server.fail_next(Fault("PUT", "lose answer"))
    cloud(server).put("a", b"1")
    assert server.requests["PUT"] == 2


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (403, "AccessDenied", "check the key"),
        (403, "InvalidAccessKeyId", "check the key"),
        (404, "NoSuchBucket", "create it"),
    ],
)
def test_an_access_denied_error_is_explained_and_not_retried(
    server: S3Server, status: int, code: str, remedy: str
) -> None:
    store = cloud(server)
    asks: dict[str, Callable[[], object]] = {
        "PUT": lambda: store.put("a", b"1"),
        "GET": lambda: store.read("a"),
        "LIST": lambda: [*store.list()],
    }
    for method, ask in asks.items():
        server.fail_next(Fault(method, "refuse", status, code))
        with pytest.raises(StorageError, match=remedy):
            ask()
        assert server.requests[method] == 1
    server.fail_next(Fault("PUT", "refuse", status, code))
    with pytest.raises(StorageError, match=remedy):
        store.create("a", b"1")
    assert server.requests["PUT"] == 2


def test_a_missing_bucket_is_not_reported_as_a_missing_object(server: S3Server) -> None:
    store = open_store("s3://other/lake", server.options)
    with pytest.raises(StorageError, match="bucket or container does not exist"):
        store.read("a")
    with pytest.raises(StorageError, match="bucket or container does not exist"):
        store.read_many(["a", "b"])
    with pytest.raises(StorageError, match="bucket or container does not exist"):
        store.create("a", b"")


def test_the_error_for_a_lakehouse_in_a_missing_bucket_names_no_internals(server: S3Server) -> None:
    with pytest.raises(StorageError) as refused:
        mangrove.open("s3://other/lake", storage_options=server.options)
    said = str(refused.value)
    assert said.startswith("s3://other/lake/ could not be read: the bucket or container does not exist")
    assert "<" not in said
    assert "_mangrove_export" not in said


def test_an_unreachable_server_is_explained() -> None:
    # Held, so that no other program can listen there.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        options = {"endpoint": f"http://127.0.0.1:{port}", "access_key_id": "a", "secret_access_key": "b"}
        store = open_store("s3://bucket/lake", {**options, "retries_max": "0"})
        with pytest.raises(StorageError, match="check the endpoint and the network"):
            store.read("a")


def test_an_error_contains_no_signature() -> None:
    error = build_storage_error(
        ValueError("GET http://x/a?sig=SECRET&se=1 failed\nmore SECRET"), "read", "a", "az://c/"
    )
    assert "SECRET" not in str(error)
    assert "http://x/a failed" in str(error)


def test_an_unknown_or_invalid_option_is_rejected(server: S3Server) -> None:
    for wrong in ({"nonsense": "1"}, {"retries_max": "many"}, {"unsorted_listing": "perhaps"}, {"timeout": "soon"}):
        with pytest.raises(InvalidInputError):
            open_store("s3://bucket/lake", {**server.options, **wrong})


def test_an_unsorted_listing_is_detected_or_sorted(server: S3Server) -> None:
    server.objects.update({"lake/a": b"", "lake/b": b""})
    server.lists_backwards = True
    with pytest.raises(StorageError, match="unsorted_listing=true"):
        list_paths(cloud(server, unsorted_listing="false"))
    assert list_paths(cloud(server, unsorted_listing="true")) == ["a", "b"]


def test_a_listing_by_prefix_does_not_read_earlier_names(server: S3Server) -> None:
    store = cloud(server, unsorted_listing="false")
    store.put_many({f"0101/{number:04d}": b"" for number in range(1_500)} | {"_1.ipc": b"", "_2.ipc": b""})
    server.requests.clear()
    assert list_paths(store, "_") == ["_1.ipc", "_2.ipc"]
    assert server.requests == {"LIST": 1}


def test_many_reads_run_in_parallel() -> None:
    with S3Server(answers_from=8) as server:
        cloud(server).read_many([f"{number}" for number in range(64)])
        assert 8 <= server.at_once_max <= 32
        assert server.requests == {"GET": 64}


def test_bulk_deletion_costs_one_request_per_thousand(server: S3Server) -> None:
    server.objects.update({f"lake/{number}": b"" for number in range(1_500)})
    cloud(server).delete_many(str(number) for number in range(1_500))
    assert server.objects == {}
    assert server.requests == {"POST": 2}


def test_keys_of_the_profile_are_used_where_none_are_given(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text("[team]\naws_access_key_id = from-profile\naws_secret_access_key = x%y\n")
    (tmp_path / "config").write_text(f"[profile team]\nregion = eu-west-1\nendpoint_url = {server.endpoint}\n")
    monkeypatch.setenv("AWS_PROFILE", "team")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    open_store("s3://bucket/lake").put("a", b"1")
    assert server.objects == {"lake/a": b"1"}
    assert "Credential=from-profile/" in server.last_authorization
    assert "/eu-west-1/s3/" in server.last_authorization


def test_keys_and_endpoint_of_the_environment_are_used(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    open_store("s3://bucket/lake").put("a", b"1")
    assert server.objects == {"lake/a": b"1"}
    assert "Credential=from-environment/" in server.last_authorization


def test_an_incomplete_profile_provides_no_keys(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\nregion = eu-west-1\nrole_arn = arn:x\naws_secret_access_key = x\n")
    environment = {"HOME": "/nowhere", "AWS_CONFIG_FILE": str(tmp_path / "config")}
    assert load_profile_options(environment) == {"region": "eu-west-1"}
    assert load_profile_options({"HOME": "/nowhere"}) == {}
    (tmp_path / "config").write_bytes(b"\xff not a profile")
    assert load_profile_options(environment) == {}


@pytest.mark.parametrize("endpoint", ["localhost:9000", "nonsense", "", "http://", "http://a b/", "http://host:99999"])
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidInputError, match=r"the endpoint '.*' is no URL; write it as http://localhost:9000"):
        open_store("s3://bucket/lake", {"endpoint": endpoint, "access_key_id": "a", "secret_access_key": "b"})
