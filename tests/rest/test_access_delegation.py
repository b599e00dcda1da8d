"""Access to files without keys of the client's own: keys of the server, of a role, and signed requests."""

import datetime
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from pyiceberg.catalog.rest import RestCatalog
from starlette.testclient import TestClient
from tests.rest.conftest import TOKEN, served
from tests.support.servers import RealServer, run_seaweedfs

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.rest.delegation import AccessDelegation, build_delegation
from mangrove.rest.s3_delegation import S3Delegation, SignRequest
from mangrove.rest.settings import RestSettings
from mangrove.rest.sigv4 import AwsKeys, sign_request
from mangrove.server.access import Access
from mangrove.server.app import build_app

AT = datetime.datetime(2013, 5, 24, tzinfo=datetime.UTC)
KEYS = AwsKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
OPTIONS = {"access_key_id": "id", "secret_access_key": "secret", "region": "eu-west-1"}
FOLDER = "data/t1/"


def test_a_signature_is_that_of_the_example_in_the_documentation_of_s3() -> None:
    headers = sign_request(
        KEYS,
        ("us-east-1", "s3"),
        "GET",
        "https://examplebucket.s3.amazonaws.com/test.txt",
        {"Range": "bytes=0-9"},
        AT,
        EMPTY,
    )
    assert headers["authorization"].endswith("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")


def test_a_signature_covers_the_query() -> None:
    url = "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J"
    headers = sign_request(KEYS, ("us-east-1", "s3"), "GET", url, {}, AT, EMPTY)
    assert headers["authorization"].endswith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")


@pytest.fixture
def signing() -> S3Delegation:
    found = build_delegation("remote-signing", "s3://bucket/my%20lake", OPTIONS, {})
    assert isinstance(found, S3Delegation)
    return found


@pytest.mark.parametrize(
    ("method", "uri", "is_writable", "is_signed"),
    [
        ("GET", "https://bucket.s3.eu-west-1.amazonaws.com/my%20lake/data/t1/a.parquet", False, True),
        ("HEAD", "https://s3.eu-west-1.amazonaws.com/bucket/my%20lake/data/t1/a.parquet", False, True),
        ("PUT", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/data/a.parquet", True, True),
        ("POST", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/data/a.parquet?uploads", True, True),
        ("PUT", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/a?partNumber=1&uploadId=x", True, True),
        ("PUT", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/data/a.parquet", False, False),
        ("DELETE", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/data/a.parquet", True, False),
        ("PUT", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/a?x-id=PutObject", True, True),
        ("PUT", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/a?acl", True, False),
        ("PUT", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/a?uploadId=x", True, False),
        ("POST", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/a?uploadId=x", True, True),
        ("POST", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/?delete", True, False),
        ("POST", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/a?delete&uploads", True, False),
        ("GET", "https://bucket.s3.amazonaws.com/my%20lake/data/t2/a.parquet", False, False),
        ("GET", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/../t2/a.parquet", False, False),
        ("GET", "https://bucket.s3.amazonaws.com/my%20lake/data/t1/%2e%2e/t2/a.parquet", False, False),
        ("GET", "https://bucket.s3.amazonaws.com/?list-type=2&prefix=my%20lake/data/t1/", False, False),
        ("GET", "https://other.s3.amazonaws.com/my%20lake/data/t1/a.parquet", False, False),
        ("GET", "https://bucket.evil.example/my%20lake/data/t1/a.parquet", False, False),
        ("GET", "https://s3.amazonaws.com/other/my%20lake/data/t1/a.parquet", False, False),
    ],
)
def test_only_requests_for_files_of_the_table_are_signed(
    signing: S3Delegation, method: str, uri: str, is_writable: bool, is_signed: bool
) -> None:
    request = SignRequest(method, "eu-west-1", uri, {})
    assert (signing.find_refusal(request, FOLDER, is_writable=is_writable) is None) == is_signed


@pytest.mark.parametrize("header", ["x-amz-copy-source", "x-amz-acl", "x-amz-copy-source\n", "x-amz-grant-read"])
def test_headers_that_copy_files_or_change_rights_are_not_signed(signing: S3Delegation, header: str) -> None:
    uri = "https://bucket.s3.amazonaws.com/my%20lake/data/t1/a"
    request = SignRequest("PUT", "eu-west-1", uri, {header: "/bucket/secret", "x-amz-meta\nx": "1"})
    assert signing.find_refusal(request, FOLDER, is_writable=True) is not None
    plain = SignRequest("PUT", "eu-west-1", uri, {"content-type": "text/plain", f" {header}": "/bucket/secret"})
    signed = signing.sign(plain, AT)["headers"]
    assert "content-type" in signed
    assert not any("copy-source" in name or "acl" in name for name in signed)


@pytest.mark.parametrize("change", [{"uri": "https://[bad"}, {"headers": [1]}, {"method": 5}, {"uri": "http://a/\n"}])
def test_an_invalid_request_for_a_signature_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="invalid request for a signature"):
        SignRequest.parse({"method": "GET", "region": "eu", "uri": "https://a/b", "headers": {}, **change})
    assert SignRequest.parse({"method": "get", "region": "eu", "uri": "https://a/b", "headers": {"X": 5}}).headers == {
        "x": "5"
    }


@pytest.mark.parametrize(
    ("mode", "uri", "options", "role"),
    [
        ("static", "file:///lake", OPTIONS, None),
        ("static", "s3://bucket/lake", {}, None),
        ("sts", "s3://bucket/lake", OPTIONS, None),
        ("static", "s3://bucket/lake", OPTIONS, "arn:aws:iam::1:role/reader"),
        ("other", "s3://bucket/lake", OPTIONS, None),
    ],
)
def test_a_delegation_that_cannot_work_is_refused(
    mode: str, uri: str, options: Mapping[str, str], role: str | None
) -> None:
    with pytest.raises(InvalidInputError):
        build_delegation(mode, uri, options, {}, role)


def test_keys_may_come_from_the_environment() -> None:
    variables = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}
    found = build_delegation("static", "s3://bucket", None, variables)
    assert isinstance(found, S3Delegation)
    assert found.keys == AwsKeys("a", "b", "c")


def ask(delegation: AccessDelegation, requested: str, *, is_writable: bool = False, seconds: int = 0) -> dict[str, Any]:
    at = AT + datetime.timedelta(seconds=seconds)
    return delegation.build_table_access(requested, FOLDER, "v1/sign", is_writable=is_writable, at=at)


def test_keys_are_given_only_to_clients_that_request_them() -> None:
    delegation = build_delegation("static", "s3://bucket/lake", OPTIONS, {})
    assert delegation is not None
    assert ask(delegation, "") == ask(delegation, "remote-signing") == {}
    (credential,) = ask(delegation, "remote-signing, vended-credentials")["storage-credentials"]
    assert credential["prefix"] == "s3://bucket/lake/data/t1/"
    assert credential["config"]["s3.secret-access-key"] == "secret"
    assert "secret" not in repr(delegation)


@contextmanager
def running_sts(requests: list[dict[str, str]]) -> Iterator[str]:
    """Serve AWS STS as far as roles are assumed there; each session has a key of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            requests.append({name: values[0] for name, values in parse_qs(form).items()})
            number = len(requests)
            text = (
                f"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>id{number}</AccessKeyId>"
                f"<SecretAccessKey>s{number}</SecretAccessKey><SessionToken>t{number}</SessionToken>"
                "</Credentials></AssumeRoleResult></AssumeRoleResponse>"
            )
            status = 200 if "/eu-west-1/sts/aws4_request" in self.headers["Authorization"] else 403
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_temporary_keys_are_limited_to_the_folder_of_the_table_and_reused() -> None:
    requests: list[dict[str, str]] = []
    with running_sts(requests) as address:
        delegation = build_delegation(
            "sts", "s3://bucket/lake", OPTIONS, {"AWS_ENDPOINT_URL_STS": address}, "arn:aws:iam::1:role/reader"
        )
        assert delegation is not None
        found = [ask(delegation, "vended-credentials", seconds=one) for one in (0, 500, 700)]
        ask(delegation, "vended-credentials", is_writable=True)
    assert [one["config"]["s3.session-token"] for one in found] == ["t1", "t1", "t2"]
    assert requests[0]["RoleArn"] == "arn:aws:iam::1:role/reader"
    (statement,) = json.loads(requests[0]["Policy"])["Statement"]
    assert statement == {
        "Effect": "Allow",
        "Action": ["s3:GetObject"],
        "Resource": "arn:aws:s3:::bucket/lake/data/t1/*",
    }
    (statement,) = json.loads(requests[2]["Policy"])["Statement"]
    assert statement["Action"] == ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with run_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture
def far_lake(bucket: RealServer, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(f"{bucket.uri}{tmp_path.name}/my lake", storage_options=bucket.options)
    lake.create_namespace("sales")
    for name in ("orders", "others"):
        lake.create_table(f"sales.{name}", "id bigint not null").append([{"id": 1}, {"id": 2}])
    return lake


def settings_of(lake: Lakehouse, mode: str) -> RestSettings:
    return RestSettings(delegation=build_delegation(mode, lake.uri, lake.storage_options, {}))


@pytest.mark.interop
def test_a_client_without_keys_reads_and_writes_with_those_of_the_server(far_lake: Lakehouse) -> None:
    access = Access("127.0.0.1", TOKEN, is_writable=True)
    with (
        served(far_lake, access, settings_of(far_lake, "static")) as address,
        RestCatalog("lake", uri=address, token=TOKEN) as catalog,
    ):
        table = catalog.load_table("sales.orders")
        table.append(table.scan().to_arrow())
        assert sorted(map(str, table.scan().to_arrow()["id"].to_pylist())) == ["1", "1", "2", "2"]


@pytest.mark.interop
def test_keys_are_given_for_the_folder_of_a_table_and_for_its_location(far_lake: Lakehouse) -> None:
    """A client that has one credential may use it for the location only, and that folder is empty."""
    app = build_app(far_lake, Access("127.0.0.1"), rest_settings=settings_of(far_lake, "static"))
    headers = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    with TestClient(app, base_url="http://127.0.0.1/iceberg") as client:
        found = client.get("v1/namespaces/sales/tables/orders", headers=headers).json()
    folder, location = found["storage-credentials"]
    assert found["metadata-location"].startswith(folder["prefix"])
    assert location["prefix"] == f"{found['metadata']['location'].rstrip('/')}/"
    assert folder["config"] == location["config"] == found["config"]


@pytest.mark.interop
def test_a_signed_request_is_accepted_by_a_bucket(far_lake: Lakehouse) -> None:
    app = build_app(far_lake, Access("127.0.0.1"), rest_settings=settings_of(far_lake, "remote-signing"))
    headers = {"X-Iceberg-Access-Delegation": "remote-signing"}
    with TestClient(app, base_url="http://127.0.0.1/iceberg") as client:
        orders, others = (
            client.get(f"v1/namespaces/sales/tables/{name}", headers=headers).json() for name in ("orders", "others")
        )
        assert orders["config"]["s3.remote-signing-enabled"] == "true"
        signer = orders["config"]["s3.signer.endpoint"]
        uri = path_style(far_lake, orders["metadata-location"])
        request = {"method": "GET", "region": "us-east-1", "uri": uri, "headers": {"User-Agent": ["x"]}}
        signed = client.post(signer, json=request).json()
        assert read(signed["uri"], signed["headers"])["table-uuid"] == orders["metadata"]["table-uuid"]
        with pytest.raises(urllib.error.HTTPError):
            read(uri, {})
        for wrong in ({"uri": path_style(far_lake, others["metadata-location"])}, {"method": "DELETE"}):
            refused = client.post(signer, json={**request, **wrong})
            assert (refused.status_code, refused.json()["error"]["type"]) == (403, "NotAuthorizedException")


def path_style(lake: Lakehouse, location: str) -> str:
    assert lake.storage_options is not None
    return f"{lake.storage_options['endpoint']}/{location.removeprefix('s3://').replace(' ', '%20')}"


def read(url: str, headers: Mapping[str, list[str]]) -> Any:
    request = urllib.request.Request(url, headers={name: values[0] for name, values in headers.items()})
    with urllib.request.urlopen(request) as response:
        return json.load(response)
