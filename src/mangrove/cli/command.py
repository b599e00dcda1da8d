"""What all commands have in common: LAKE comes first, and options such as `--json` and `--cache` are understood.

LAKE may be left out where the environment names one. Then the first word is the
lakehouse only if it can be nothing else: it holds a slash, and enough words are
left for what else the command needs.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from mangrove.cli.places import CACHE_BYTES_VARIABLE, CACHE_VARIABLE, LAKE_VARIABLE, is_place, key_values
from mangrove.cli.session import Session, given_cache
from mangrove.cli.start_up import StartAgain

__all__ = ["LakeCommand", "lake_command", "words_with_lake"]

_LAKE_ARGUMENT = "lake"


def words_with_lake(words: Sequence[str], needed: int, lake: str) -> bool:
    """Return whether the words name a lakehouse themselves, where `needed` words must follow it.

    >>> words_with_lake(["./lake", "3"], 1, "s3://bucket/lake"), words_with_lake(["3", "5"], 2, "s3://bucket/lake")
    (True, False)
    """
    return not lake or (len(words) > needed and is_place(words[0]))


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
            args = args if words and is_place(words[0]) else [lake, *args]
        elif self._takes_lake and lake:
            positional = [one for one in self.params if isinstance(one, click.Argument)]
            needed = sum(one.required for one in positional) - 1
            if not words_with_lake(self._words(args), needed, lake):
                args = [lake, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command in a session, and end with what was asked of storage."""
        given = ctx.params
        options = key_values(given.pop("storage_options"), "--option")
        cache = given_cache(given.pop("cache"), given.pop("cache_bytes"))
        session = Session(given.pop("as_json"), given.pop("with_stats"), options, cache)
        is_over = True
        try:
            return ctx.invoke(self.callback, session=session, **given) if self.callback else None
        except StartAgain:
            is_over = False
            raise
        finally:
            if is_over:
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
