"""Base class and common options of all commands, and the choice of engine for each.

LAKE may be left out where the environment names one. Then the first word is the
lakehouse only if it can be nothing else: it holds a slash, and enough words are
left for what else the command needs.
"""

import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from mangrove.cli.context import (
    CACHE_BYTES_VARIABLE,
    CACHE_VARIABLE,
    LAKE_VARIABLE,
    CommandContext,
    is_location,
    parse_key_values,
    resolve_cache,
)
from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.snapshot import LakeSnapshot
from mangrove.local.engine import LocalReader
from mangrove.maintenance.compaction import ENGINES

if TYPE_CHECKING:
    from mangrove.lakehouse.opening import EnginesFactory
    from mangrove.local.engine import LocalEngine
    from mangrove.tables.table_state import TableState


__all__ = [
    "LakeCommand",
    "LocalEngines",
    "check_installed",
    "choose_engines",
    "engine_option",
    "has_lake_argument",
    "lake_command",
    "open_as_of",
]


def check_installed(what: str, modules: Sequence[str], extra: str) -> None:
    """Refuse where modules are missing that `what` needs, before anything is done."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        named = f"{' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise InvalidInputError(f"{what} needs {named}: run pip install 'mangrove-lake[{extra}]'")


def open_as_of(lake: Lakehouse, at: str | None) -> LakeSnapshot:
    """Return the lakehouse as of a moment, or as it is now; only here is a newer version asked for."""
    return LakeSnapshot(lake.reading(), lake.clients, lake.engines) if at is None else lake.at(at)


class LocalEngines:
    """The engines of a lakehouse that was opened for a command."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    @cached_property
    def _local(self) -> "LocalEngine":
        # What writes takes longer to import than what reads.
        from mangrove.local.engine import LocalEngine  # noqa: PLC0415

        return LocalEngine(self._effects.store, self._effects.new_id)

    def reader(self) -> LocalReader:
        """Return what reads in this process."""
        return LocalReader(self._effects.store)

    def local(self) -> "LocalEngine":
        """Return the engine in this process."""
        return self._local

    def iceberg_address(self, state: "TableState", at_millis: int) -> str:
        """Write what is missing to show a state to Iceberg, and return where its metadata lies."""
        # Not everybody has installed it.
        from mangrove.iceberg.publish.metadata_writer import publish_metadata  # noqa: PLC0415

        return publish_metadata(self._effects.store, state, at_millis)

    def can_spark_open(self, *others: str) -> bool:  # noqa: ARG002 - no place at all
        """Return that nothing is done on Spark."""
        return False

    def spark(self, *, jars: bool = False) -> NoReturn:  # noqa: ARG002 - not at all
        """Refuse: no command hands in a frame of Spark's."""
        raise InvalidInputError("commands read and write rows in this process: use Spark from Python instead")


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


def choose_engines(session: CommandContext, engine: str | None) -> "EnginesFactory":
    """Return the engines that a command opens a lakehouse with; Spark starts when there is something for it."""
    if engine == "local":
        return LocalEngines
    from mangrove.cli.sql import QuietEngines  # noqa: PLC0415 - only here is Spark ever needed

    return partial(QuietEngines, storage_options=session.storage_options, what="--engine spark")


_LAKE_ARGUMENT = "lake"


def has_lake_argument(words: Sequence[str], needed: int, lake: str) -> bool:
    """Return whether the words name a lakehouse themselves, where `needed` words must follow it.

    >>> has_lake_argument(["./lake", "3"], 1, "s3://bucket/lake"), has_lake_argument(["3", "5"], 2, "s3://bucket/lake")
    (True, False)
    """
    return not lake or (len(words) > needed and is_location(words[0]))


class LakeCommand(click.Command):
    """A command whose callback takes a `session`, and `lake` unless it needs none."""

    def __init__(self, *, takes_lake: bool = True, example: str = "", **settings: Any) -> None:
        own: list[click.Parameter] = list(settings.pop("params", None) or [])
        if takes_lake:
            own.insert(0, click.Argument([_LAKE_ARGUMENT], metavar="LAKE", shell_complete=_offer_folders))
        settings["epilog"] = "\b\nExample:\n" + "\n".join(f"  {line}" for line in example.splitlines())
        super().__init__(params=[*own, *_common_options()], **settings)
        self._takes_lake = takes_lake

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the lakehouse of the environment first where the words name none."""
        lake = os.environ.get(LAKE_VARIABLE, "")
        if self._takes_lake and lake and ctx.resilient_parsing:
            # A shell completes: what will follow is not known, so only a place is a lakehouse.
            words = self._words(args)
            args = args if words and is_location(words[0]) else [lake, *args]
        elif self._takes_lake and lake:
            positional = [one for one in self.params if isinstance(one, click.Argument)]
            needed = sum(one.required for one in positional) - 1
            if not has_lake_argument(self._words(args), needed, lake):
                args = [lake, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command in a session, and end with what was asked of storage."""
        given = ctx.params
        options = parse_key_values(given.pop("storage_options"), "--option")
        cache = resolve_cache(given.pop("cache"), given.pop("cache_bytes"))
        session = CommandContext(given.pop("as_json"), given.pop("with_stats"), options, cache)
        try:
            return ctx.invoke(self.callback, session=session, **given) if self.callback else None
        finally:
            session.finish()

    def _words(self, args: list[str]) -> Sequence[str]:
        """Return the arguments that are neither options nor their values."""
        options = [one for one in self.params if not isinstance(one, click.Argument)]
        words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
        probe = click.Command("words", params=[*options, words], add_help_option=False)
        with probe.make_context("words", list(args), resilient_parsing=True, ignore_unknown_options=True) as context:
            found: Sequence[str] = context.params["words"]
            return found


def lake_command(name: str, example: str, *, takes_lake: bool = True) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function; its docstring is the help, and `example` is shown below it."""
    return click.command(name, cls=LakeCommand, takes_lake=takes_lake, example=example)


def _offer_folders(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(["--json", "as_json"], is_flag=True, help="Answer in JSON, for programs."),
        click.Option(
            ["--stats", "with_stats"], is_flag=True, help="Say how many requests and bytes storage was asked."
        ),
        click.Option(
            ["--option", "storage_options"],
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the store, such as region=eu-west-1.",
        ),
        click.Option(
            ["--cache"],
            metavar="FOLDER",
            envvar=CACHE_VARIABLE,
            show_envvar=True,
            help="A folder that remembers what was read from a bucket.",
        ),
        click.Option(
            ["--cache-bytes"],
            type=click.IntRange(1),
            envvar=CACHE_BYTES_VARIABLE,
            show_envvar=True,
            help="About how much it may hold; 1 GB unless said.",
        ),
    ]
