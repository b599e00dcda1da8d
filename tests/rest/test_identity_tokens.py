"""Identity tokens of an issuer (OpenID Connect) as tokens of principals."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.testclient import TestClient
from tests.rest.conftest import TOKEN, counted

import mangrove
from mangrove.errors import InvalidInputError, StorageError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.access import TokenIdentity
from mangrove.server.access import Access
from mangrove.server.app import build_app
from mangrove.server.identity import IdentityProvider, IdentitySettings

PRIVATE_KEY = rsa.generate_private_key(65537, 2048)
AUDIENCE = "mangrove"


@dataclass
class Issuer:
    """An issuer of tokens on a port of its own."""

    address: str = ""
    keys: dict[str, Any] = field(default_factory=lambda: {"one": PRIVATE_KEY})
    requests: list[str] = field(default_factory=list)
    is_down: bool = False

    def settings(self, **changes: str) -> IdentitySettings:
        return IdentitySettings(self.address, AUDIENCE, **changes)

    def issue(self, key_id: str | None = "one", **changes: object) -> str:
        claims = {"iss": self.address, "aud": AUDIENCE, "exp": int(time.time()) + 600, "sub": "ana", **changes}
        given = {name: value for name, value in claims.items() if value is not None}
        key = self.keys[key_id or "one"]
        algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(given, key, algorithm, headers={} if key_id is None else {"kid": key_id})

    def respond(self, path: str) -> dict[str, Any]:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.address, "jwks_uri": f"{self.address}/keys"}
        return {"keys": [{**_jwk(key), "kid": name, "use": "sig"} for name, key in self.keys.items()]}


def _jwk(key: Any) -> dict[str, Any]:
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return dict(kind.to_jwk(key.public_key(), as_dict=True))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    found = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.requests.append(self.path)
            self.send_response(503 if found.is_down else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found.respond(self.path)).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_token_of_the_issuer_names_its_principal_and_roles(issuer: Issuer) -> None:
    provider = IdentityProvider(issuer.settings(), lambda: 0)
    assert provider.verify(issuer.issue(roles=["analyst", 7])) == TokenIdentity("ana", frozenset({"analyst"}))
    assert provider.verify(issuer.issue(None, roles="a b", nbf=int(time.time()) + 30)) == TokenIdentity(
        "ana", frozenset({"a", "b"})
    )
    nested = IdentityProvider(issuer.settings(principal_claim="email", roles_claim="realm_access.roles"), lambda: 0)
    token = issuer.issue(email="ana@shop.example", realm_access={"roles": ["x"]})
    assert nested.verify(token) == TokenIdentity("ana@shop.example", frozenset({"x"}))
    assert issuer.requests == ["/.well-known/openid-configuration", "/keys"] * 2


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"exp": 1_000_000},
        {"exp": None},
        {"nbf": 9_000_000_000},
        {"sub": None},
        {"sub": "ana; drop"},
        {"sub": ["ana"]},
    ],
)
def test_a_token_with_other_claims_is_refused(issuer: Issuer, changes: dict[str, object]) -> None:
    if isinstance(changes.get("sub"), list):
        issuer_token = issuer.issue(sub=None, name=changes["sub"])
        assert IdentityProvider(issuer.settings(principal_claim="name"), lambda: 0).verify(issuer_token) is None
        return
    assert IdentityProvider(issuer.settings(), lambda: 0).verify(issuer.issue("one", **changes)) is None


def test_a_token_that_another_key_or_no_key_signed_is_refused(issuer: Issuer) -> None:
    provider = IdentityProvider(issuer.settings(), lambda: 0)
    token = issuer.issue()
    header, claims, signature = token.split(".")
    other = Issuer(issuer.address, {"one": rsa.generate_private_key(65537, 2048)})
    forged = [
        other.issue(),
        other.issue(None),
        f"{header}.{claims}.",
        f"{header}.{other.issue(sub='root').split('.')[1]}.{signature}",
        jwt.encode({"sub": "ana"}, None, "none"),  # type: ignore[arg-type]
        # The public key as a shared secret.
        jwt.encode({"iss": issuer.address, "aud": AUDIENCE, "exp": 9_000_000_000, "sub": "ana"}, "k" * 64, "HS256"),
        "a.b.c",
        f"{token}.x",
        "",
    ]
    assert [provider.verify(one) for one in forged] == [None] * len(forged)
    assert provider.verify(token) is not None


def test_new_keys_are_loaded_seldom_and_known_keys_outlive_an_issuer_that_is_down(issuer: Issuer) -> None:
    now = [0]
    provider = IdentityProvider(issuer.settings(keys_url=f"{issuer.address}/keys"), lambda: now[0])
    first = issuer.issue()
    assert provider.verify(first) is not None
    issuer.keys = {"one": PRIVATE_KEY, "two": ec.generate_private_key(ec.SECP256R1())}
    second = issuer.issue("two")
    assert provider.verify(second) is None
    assert len(issuer.requests) == 1
    now[0] = 31_000
    assert provider.verify(second) is not None
    assert len(issuer.requests) == 2
    issuer.is_down, now[0] = True, 1_000_000
    assert provider.verify(second) is not None
    assert provider.verify(second) is not None
    assert len(issuer.requests) == 3
    with pytest.raises(StorageError):
        IdentityProvider(issuer.settings(), lambda: 0).verify(first)


def test_settings_that_are_not_safe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="https"):
        IdentitySettings("http://issuer.example", AUDIENCE)
    with pytest.raises(InvalidInputError, match="audience"):
        IdentitySettings("https://issuer.example", "")
    lake = mangrove.create(tmp_path / "lake")
    with pytest.raises(InvalidInputError, match="--token"):
        build_app(lake, Access("127.0.0.1"), identity=IdentitySettings("https://issuer.example", AUDIENCE))


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    for name in ("sales", "staff"):
        lake.create_namespace(name)
        lake.create_table(f"{name}.rows", "id bigint").append([{"id": 1}])
    lake.access.create_role("analyst")
    lake.access.grant("write", "sales", to="analyst")
    lake.access.create_principal("ana")
    lake.access.grant("read", "staff", to="ana")
    return lake


def client_of(lake: Lakehouse, issuer: Issuer) -> TestClient:
    app = build_app(counted(lake), Access("127.0.0.1", TOKEN, is_writable=True), identity=issuer.settings())
    return TestClient(app, base_url="http://127.0.0.1/iceberg", raise_server_exceptions=False)


def names(client: TestClient, token: str) -> list[str]:
    answer = client.get("v1/namespaces", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    return [one[0] for one in answer.json()["namespaces"]]


def test_the_rights_of_a_token_are_those_of_its_principal_and_of_its_roles(lake: Lakehouse, issuer: Issuer) -> None:
    with client_of(lake, issuer) as client:
        assert names(client, issuer.issue()) == ["staff"]
        assert names(client, issuer.issue(roles=["analyst", "other"])) == ["sales", "staff"]
        assert names(client, issuer.issue(sub="ben", roles=["analyst"])) == ["sales"]
        assert names(client, issuer.issue(sub="ben")) == []
        assert names(client, TOKEN) == ["sales", "staff"]
        for wrong in (issuer.issue(exp=1_000_000), issuer.issue(sub="analyst")):
            answer = client.get("v1/namespaces", headers={"Authorization": f"Bearer {wrong}"})
            assert answer.status_code == 401
        lake.access.revoke("write", "sales", from_="analyst")
        issuer.is_down = True
        path = "v1/namespaces/sales/tables/rows"
        headers = {"Authorization": f"Bearer {issuer.issue(sub='ben', roles=['analyst'])}"}
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        assert client.post(path, json=change, headers=headers).status_code in (403, 404)


def test_a_commit_has_the_rights_of_the_roles_in_the_token_and_the_principal_as_its_author(
    lake: Lakehouse, issuer: Issuer
) -> None:
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    headers = {"Authorization": f"Bearer {issuer.issue(sub='ben', roles=['analyst'])}"}
    with client_of(lake, issuer) as client:
        answer = client.post("v1/namespaces/sales/tables/rows", json=change, headers=headers)
        assert answer.status_code == 200, answer.text
        assert client.delete("v1/namespaces/sales/tables/rows", headers=headers).status_code == 403
    assert lake.history()[0].author == "ben"


def test_an_issuer_that_does_not_respond_is_no_wrong_token(lake: Lakehouse, issuer: Issuer) -> None:
    issuer.is_down = True
    with client_of(lake, issuer) as client:
        headers = {"Authorization": f"Bearer {issuer.issue()}"}
        assert client.get("v1/namespaces", headers=headers).status_code == 503
        assert names(client, TOKEN) == ["sales", "staff"]


def test_a_client_exchanges_a_token_of_the_issuer(lake: Lakehouse, issuer: Issuer) -> None:
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": issuer.issue(),
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    }
    with client_of(lake, issuer) as client:
        answer = client.post("v1/oauth/tokens", data=form)
        assert answer.status_code == 200, answer.text
        assert names(client, answer.json()["access_token"]) == ["staff"]
        refused = client.post("v1/oauth/tokens", data={**form, "subject_token": issuer.issue(aud="another")})
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
