"""What the tests of SQL share: the end of their connection to DuckDB."""

from collections.abc import Iterator

import pytest
from tests.sql.random_queries import connect_peer


@pytest.fixture(scope="session", autouse=True)
def close_peer() -> Iterator[None]:
    """Close the connection after the last test; an open one would be reported as a leak when the process ends."""
    yield
    if connect_peer.cache_info().currsize:
        connect_peer().close()
        connect_peer.cache_clear()
