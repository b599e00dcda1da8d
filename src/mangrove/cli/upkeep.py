"""A lakehouse as maintenance needs it, where its layout has that, with the engine that copies."""

from typing import TYPE_CHECKING, cast

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.maintenance.maintained import Maintained
from mangrove.metastore import Upkeep

if TYPE_CHECKING:
    from mangrove.lakehouse.opening import EnginesMaker

__all__ = ["copying_engines", "maintained"]


def copying_engines(engine: str) -> "EnginesMaker | None":
    """Return the engines that a command opens a lakehouse with to copy files; this process needs none."""
    if engine == "local":
        return None
    from mangrove.cli.spark_start import QuietEngines  # noqa: PLC0415 - only who asks for Spark waits for it

    return QuietEngines


def maintained(lake: Lakehouse) -> Maintained:
    """Return what maintenance works on; a layout that cannot be maintained here is refused before anything is done."""
    if not hasattr(lake.metastore, "differences"):
        raise InvalidInputError(
            f"{lake.uri} is in the {lake.layout} layout, whose versions this release can read and commit but not "
            "compare, expire or export: use a lakehouse in the tree layout"
        )
    return Maintained(lake.effects, lake.metastore, cast(Upkeep, lake.metastore))
