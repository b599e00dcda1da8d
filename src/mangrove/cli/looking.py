"""The version that a command looks at: one for its whole answer, so that nothing in it is of another moment."""

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.past import PastLakehouse

__all__ = ["looked_at"]


def looked_at(lake: Lakehouse, at: str | None) -> PastLakehouse:
    """Return the lakehouse as of a moment, or as it is now; only here is a newer version asked for."""
    return PastLakehouse(lake.reading(), lake.clients, lake.engines) if at is None else lake.at(at)
