"""A lakehouse as maintenance needs it, where its layout has that."""

from typing import cast

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.maintenance.maintained import Maintained
from mangrove.metastore import Upkeep

__all__ = ["maintained"]


def maintained(lake: Lakehouse) -> Maintained:
    """Return what maintenance works on; a layout that cannot be maintained here is refused before anything is done."""
    if not hasattr(lake.metastore, "differences"):
        raise InvalidInputError(
            f"{lake.uri} is in the {lake.layout} layout, whose versions this release can read and commit but not "
            "compare, expire or export: use a lakehouse in the tree layout"
        )
    return Maintained(lake.effects, lake.metastore, cast(Upkeep, lake.metastore))
