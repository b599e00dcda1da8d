"""Shared access signatures for Azure as a server of Azure's verifies them."""

import datetime
import urllib.error
import urllib.request

import pytest
from tests.support.servers import RealServer

from mangrove.rest.azure_delegation import sign_access
from mangrove.storage.opening import open_store

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("resource", ["b", "c"])
def test_a_shared_access_signature_allows_what_it_names(azurite_server: RealServer, resource: str) -> None:
    open_store(f"{azurite_server.uri}signed-{resource}/", azurite_server.options).put("a b.txt", b"rows")
    account, key, endpoint = (azurite_server.options[name] for name in ("account_name", "account_key", "endpoint"))
    now = datetime.datetime.now(datetime.UTC)
    times = now - datetime.timedelta(minutes=5), now + datetime.timedelta(hours=1)
    path = f"signed-{resource}/a b.txt"
    query = sign_access(account, key, "container", path, "r", times, resource)
    url = f"{endpoint}/container/{path.replace(' ', '%20')}?{query}"
    with urllib.request.urlopen(url, timeout=30) as response:
        assert response.read() == b"rows"
    for refused in (
        urllib.request.Request(url, method="DELETE"),
        urllib.request.Request(url, b"", {"x-ms-blob-type": "BlockBlob"}, method="PUT"),
        urllib.request.Request(url.replace("sp=r", "sp=rw")),
    ):
        with pytest.raises(urllib.error.HTTPError) as found:
            urllib.request.urlopen(refused, timeout=30)
        found.value.close()
        assert found.value.code == 403
