"""Access to files without keys of the client's own on Azure and Google Cloud Storage."""

import base64
import datetime
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import obstore
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from obstore.store import AzureStore

from mangrove.errors import InvalidInputError, StorageError
from mangrove.rest.azure_delegation import sign_access
from mangrove.rest.delegation import AccessDelegation, build_delegation

AT = datetime.datetime(2026, 5, 24, 12, tzinfo=datetime.UTC)
FOLDER = "data/t1/"
AZURE_URI = "abfss://box@shop.dfs.core.windows.net/my lake"
ACCOUNT_KEY = base64.b64encode(b"a key of the account").decode()
AZURE_KEYS = {"account_key": ACCOUNT_KEY}
HOST = "shop.dfs.core.windows.net"


def build(
    mode: str, uri: str, options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> AccessDelegation:
    found = build_delegation(mode, uri, options, environment or {})
    assert found is not None
    return found


def ask(
    delegation: AccessDelegation, requested: str = "vended-credentials", *, is_writable: bool = False, seconds: int = 0
) -> dict[str, Any]:
    at = AT + datetime.timedelta(seconds=seconds)
    return delegation.build_table_access(requested, FOLDER, "v1/sign", is_writable=is_writable, at=at)


def test_a_shared_access_signature_is_the_one_that_obstore_computes() -> None:
    store = AzureStore("box", account_name="shop", account_key=ACCOUNT_KEY)
    url = obstore.sign(store, "GET", "lake/a.parquet", datetime.timedelta(hours=1))
    fields = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    times = datetime.datetime.fromisoformat(fields["st"]), datetime.datetime.fromisoformat(fields["se"])
    own = parse_qs(sign_access("shop", ACCOUNT_KEY, "box", "lake/a.parquet", fields["sp"], times, "b"))
    assert fields["sv"] == own["sv"][0]
    assert fields["sig"] == own["sig"][0]


def test_a_shared_access_signature_is_limited_to_the_folder_of_the_table_and_cannot_delete() -> None:
    delegation = build("sas", AZURE_URI, AZURE_KEYS)
    (credential,) = ask(delegation)["storage-credentials"]
    assert credential["prefix"] == f"abfss://box@{HOST}/my lake/data/t1/"
    config = credential["config"]
    fields = {name: values[0] for name, values in parse_qs(config[f"adls.sas-token.{HOST}"]).items()}
    assert (fields["sr"], fields["sdd"], fields["sp"]) == ("d", "3", "r")
    assert (fields["st"], fields["se"]) == ("2026-05-24T11:55:00Z", "2026-05-24T13:00:00Z")
    assert config[f"adls.sas-token-expires-at-ms.{HOST}"] == str(int(AT.timestamp() + 3600) * 1000)
    assert config["adls.sas-token.shop"] == config[f"adls.sas-token.{HOST}"]
    assert ACCOUNT_KEY not in json.dumps(credential)
    assert ACCOUNT_KEY not in repr(delegation)
    written = ask(delegation, is_writable=True)["config"][f"adls.sas-token.{HOST}"]
    assert parse_qs(written)["sp"] == ["rcw"]


def test_the_account_key_is_given_only_to_clients_that_request_it() -> None:
    delegation = build("static", AZURE_URI, {}, {"AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY})
    assert ask(delegation, "") == ask(delegation, "remote-signing") == {}
    assert ask(delegation)["config"]["adls.account-key"] == ACCOUNT_KEY


@pytest.mark.parametrize(
    ("mode", "uri", "options"),
    [
        ("sas", "s3://bucket/lake", AZURE_KEYS),
        ("sas", AZURE_URI, {}),
        ("sas", AZURE_URI, {"account_key": "not base 64"}),
        ("downscoped", AZURE_URI, AZURE_KEYS),
        ("remote-signing", "gs://bucket/lake", {}),
        ("downscoped", "gs://bucket/lake", {"service_account_key": "{}"}),
        ("downscoped", "gs://bucket/lake", {"service_account_key": "no JSON"}),
        ("downscoped", "gs://bucket/lake", {"service_account_path": "/does/not/exist"}),
    ],
)
def test_a_delegation_that_cannot_work_is_refused(mode: str, uri: str, options: Mapping[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        build_delegation(mode, uri, options, {})


@contextmanager
def running_google(requests: list[dict[str, str]]) -> Iterator[str]:
    """Serve Google's endpoints for tokens; each answer has a token of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.respond({"path": self.path, "flavor": self.headers["Metadata-Flavor"]})

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.respond({"path": self.path, **{name: values[0] for name, values in parse_qs(form).items()}})

        def respond(self, request: dict[str, str]) -> None:
            requests.append(request)
            content = {"access_token": f"token{len(requests)}", "expires_in": 3600}
            self.send_response(404 if "unknown" in self.path else 200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def key_of(private_key: rsa.RSAPrivateKey, token_url: str) -> str:
    text = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return json.dumps({"client_email": "lake@shop.example", "private_key": text, "token_uri": token_url})


def test_an_oauth_token_is_limited_to_the_folder_of_the_table_and_reused(tmp_path: Path) -> None:
    private_key = rsa.generate_private_key(65537, 2048)
    requests: list[dict[str, str]] = []
    with running_google(requests) as address:
        path = tmp_path / "key.json"
        path.write_text(key_of(private_key, f"{address}/token"))
        environment = {
            "GOOGLE_APPLICATION_CREDENTIALS": str(path),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STS": f"{address}/",
        }
        delegation = build("downscoped", "gs://bucket/it's a lake", {}, environment)
        found = [ask(delegation, seconds=one) for one in (0, 1000, 2000)]
        ask(delegation, is_writable=True, seconds=2000)
    own, limited, own_again, limited_again, writing = requests
    claims = jwt.decode(
        own["assertion"],
        private_key.public_key(),
        ["RS256"],
        audience=f"{address}/token",
        issuer="lake@shop.example",
        options={"verify_exp": False, "verify_iat": False},
    )
    assert (claims["iat"], claims["exp"]) == (int(AT.timestamp()), int(AT.timestamp()) + 3600)
    assert own_again["path"] == "/token"
    assert limited["subject_token"] == "token1"
    (rule,) = json.loads(limited["options"])["accessBoundary"]["accessBoundaryRules"]
    assert rule == {
        "availableResource": "//storage.googleapis.com/projects/_/buckets/bucket",
        "availablePermissions": ["inRole:roles/storage.objectViewer"],
        "availabilityCondition": {
            "expression": r"resource.name.startsWith('projects/_/buckets/bucket/objects/it\'s a lake/data/t1/')"
        },
    }
    (rule,) = json.loads(writing["options"])["accessBoundary"]["accessBoundaryRules"]
    assert rule["availablePermissions"] == ["inRole:roles/storage.objectViewer", "inRole:roles/storage.objectCreator"]
    assert [one["config"]["gcs.oauth2.token"] for one in found] == ["token2", "token2", "token4"]
    assert found[0]["config"]["gcs.oauth2.token-expires-at"] == str(int(AT.timestamp() + 3600) * 1000)
    assert limited_again["subject_token"] == "token3"


def test_a_machine_in_google_cloud_needs_no_key() -> None:
    requests: list[dict[str, str]] = []
    with running_google(requests) as address:
        host = address.removeprefix("http://")
        delegation = build("static", "gs://bucket/lake", {}, {"GCE_METADATA_HOST": host})
        assert ask(delegation, "") == {}
        (credential,) = ask(delegation)["storage-credentials"]
    assert credential["prefix"] == "gs://bucket/lake/data/t1/"
    assert credential["config"]["gcs.oauth2.token"] == "token1"
    assert requests[0]["flavor"] == "Google"
    with pytest.raises(StorageError, match="no token"):
        ask(build("static", "gs://bucket/lake", {}, {"GCE_METADATA_HOST": host}))
