"""Base class and common options of all commands, and the choice of engine for each.

LAKE is optional if MANGROVE_LAKE is set. The first argument is then the lakehouse only
if it contains a slash and enough arguments follow for the required ones.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mangrove.cli.context import (
    CommandContext,
    is_location,
    parse_key_values,
    resolve_cache,
)
from mangrove.cli.environment import CACHE_BYTES_VARIABLE, CACHE_VARIABLE, LAKE_VARIABLE
from mangrove.cli.quiet_engines import QuietEngines
from mangrove.maintenance.engine_choice import ENGINES, LOCAL
from mangrove.wiring import LocalEngines

if TYPE_CHECKING:
    from mangrove.lakehouse.opening import EnginesFactory


__all__ = [
    "LakeCommand",
    "at_option",
    "author_option",
    "choose_engines",
    "engine_option",
    "has_lake_argument",
    "lake_command",
    "message_option",
]

at_option = click.option("--at", metavar="WHEN", help="As of a version, a timestamp or an export name.")
message_option = click.option("--message", default="", help="Commit message.")
author_option = click.option("--author", default="", help="Author of the commit.")

F = TypeVar("F", bound=Callable[..., Any])
_AUTO = "auto"


def _engine(context: click.Context, parameter: click.Parameter, value: str) -> str | None:  # noqa: ARG001 - click's
    return None if value == _AUTO else value


def engine_option(work: str) -> Callable[[F], F]:
    """Return the --engine option of a command that does `work`; its value is None for auto."""
    return click.option(
        "--engine",
        type=click.Choice([_AUTO, *ENGINES]),
        default=_AUTO,
        show_default=True,
        callback=_engine,
        help=f"Engine that {work}: this process or Spark; auto decides by the amount of data.",
    )


def choose_engines(session: CommandContext, engine: str | None) -> "EnginesFactory":
    """Return the engines of a command. Spark starts only when it is needed."""
    if engine == LOCAL:
        return LocalEngines
    return partial(QuietEngines, storage_options=session.storage_options, what="--engine spark")


_LAKE_ARGUMENT = "lake"


def has_lake_argument(arguments: Sequence[str], required: int, lake: str) -> bool:
    """Return whether the first argument is a lakehouse, where `required` arguments must follow it.

    >>> has_lake_argument(["./lake", "3"], 1, "s3://bucket/lake"), has_lake_argument(["3", "5"], 2, "s3://bucket/lake")
    (True, False)
    """
    return not lake or (len(arguments) > required and is_location(arguments[0]))


class LakeCommand(click.Command):
    """A command whose callback takes a `session`, and `lake` if `takes_lake`."""

    def __init__(self, *, takes_lake: bool = True, example: str = "", **settings: Any) -> None:
        own: list[click.Parameter] = list(settings.pop("params", None) or [])
        if takes_lake:
            own.insert(0, click.Argument([_LAKE_ARGUMENT], metavar="LAKE", shell_complete=_offer_folders))
        settings["epilog"] = "\b\nExample:\n" + "\n".join(f"  {line}" for line in example.splitlines())
        super().__init__(params=[*own, *_common_options()], **settings)
        self._takes_lake = takes_lake

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the lakehouse of MANGROVE_LAKE if the arguments have none."""
        lake = os.environ.get(LAKE_VARIABLE, "")
        if self._takes_lake and lake and ctx.resilient_parsing:
            # During completion the later arguments are not known yet, so only a location is a lakehouse.
            positional = self._positional(args)
            args = args if positional and is_location(positional[0]) else [lake, *args]
        elif self._takes_lake and lake:
            required = sum(one.required for one in self.params if isinstance(one, click.Argument)) - 1
            if not has_lake_argument(self._positional(args), required, lake):
                args = [lake, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and report its storage requests if --stats is given."""
        given = ctx.params
        options = parse_key_values(given.pop("storage_options"), "--option")
        cache = resolve_cache(given.pop("cache"), given.pop("cache_bytes"))
        session = CommandContext(given.pop("as_json"), given.pop("with_stats"), options, cache)
        try:
            return ctx.invoke(self.callback, session=session, **given) if self.callback else None
        finally:
            session.finish()

    def _positional(self, args: list[str]) -> Sequence[str]:
        """Return the positional arguments: neither options nor their values."""
        options = [one for one in self.params if not isinstance(one, click.Argument)]
        positional = click.Argument(["positional"], nargs=-1, type=click.UNPROCESSED)
        probe = click.Command("probe", params=[*options, positional], add_help_option=False)
        with probe.make_context("probe", list(args), resilient_parsing=True, ignore_unknown_options=True) as context:
            values: Sequence[str] = context.params["positional"]
            return values


def lake_command(name: str, example: str, *, takes_lake: bool = True) -> Callable[[Callable[..., None]], click.Command]:
    """Turn a function into a command. Its docstring is the help text, followed by `example`."""
    return click.command(name, cls=LakeCommand, takes_lake=takes_lake, example=example)


def _offer_folders(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
        click.Option(["--stats", "with_stats"], is_flag=True, help="Print the storage requests and bytes to stderr."),
        click.Option(
            ["--option", "storage_options"],
            multiple=True,
            metavar="KEY=VALUE",
            help="Storage option, such as region=eu-west-1.",
        ),
        click.Option(
            ["--cache"],
            metavar="FOLDER",
            envvar=CACHE_VARIABLE,
            show_envvar=True,
            help="Local folder that caches files of a bucket.",
        ),
        click.Option(
            ["--cache-bytes"],
            type=click.IntRange(1),
            envvar=CACHE_BYTES_VARIABLE,
            show_envvar=True,
            help="Approximate maximum size of the cache; default 1 GB.",
        ),
    ]
