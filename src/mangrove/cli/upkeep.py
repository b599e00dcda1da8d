"""The option that says which engine does the work of a command, and the engines that the command opens with."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mangrove.cli.session import Session
from mangrove.maintenance.engine_choice import ENGINES

if TYPE_CHECKING:
    from mangrove.lakehouse.opening import EnginesMaker

__all__ = ["engine_option", "upkeep_engines"]

F = TypeVar("F", bound=Callable[..., Any])
_AUTO = "auto"


def _engine(context: click.Context, parameter: click.Parameter, value: str) -> str | None:  # noqa: ARG001 - click's
    return None if value == _AUTO else value


def engine_option(does: str) -> Callable[[F], F]:
    """Return the option that says which engine `does` something, whose value is None where that depends on the size."""
    return click.option(
        "--engine",
        type=click.Choice([_AUTO, *ENGINES]),
        default=_AUTO,
        show_default=True,
        callback=_engine,
        help=f"What {does}: this process, or Spark's executors; auto goes by how much there is.",
    )


def upkeep_engines(session: Session, engine: str | None) -> "EnginesMaker":
    """Return the engines that a command opens a lakehouse with; Spark starts when there is something for it."""
    if engine == "local":
        from mangrove.cli.engines import LocalEngines  # noqa: PLC0415 - Arrow takes long to import

        return LocalEngines
    from mangrove.cli.spark_start import QuietEngines  # noqa: PLC0415 - only here is Spark ever needed

    return partial(QuietEngines, storage_options=session.storage_options, what="--engine spark")
