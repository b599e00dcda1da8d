"""The command that opens the SQL shell on a terminal, with history, completion and colours."""

import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mangrove.cli.command import lake_command
from mangrove.cli.extras import check_installed
from mangrove.cli.session import Session
from mangrove.cli.spark_start import SPARK_MODULES
from mangrove.errors import InvalidInputError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from mangrove.cli.shell import Shell

__all__ = ["shell_command"]

# Spark and the tools of a terminal take long to import, and not everybody has them.
# ruff: noqa: PLC0415


@lake_command("shell", "mangrove shell ./lake")
@click.option("--history", metavar="FILE", help="Where lines are remembered.  [default: in the user's state folder]")
def shell_command(session: Session, lake: str, history: str | None) -> None:
    r"""Talk SQL with a lakehouse: a statement ends with a semicolon, \? shows short commands.

    Ctrl-C cancels a statement or forgets what was typed, Ctrl-D leaves. A second
    Ctrl-C returns to the prompt at once: the statement can then no longer commit.
    An open transaction shows in the prompt, and is rolled back when you leave.
    """
    if session.as_json:
        raise InvalidInputError("the shell is for people: use `mangrove sql --json` from a program")
    opened = session.open(lake)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInputError("the shell needs a terminal: use `mangrove sql` in scripts and pipes")
    check_installed("the shell", ("prompt_toolkit", "pygments"), "shell")
    check_installed("SQL", SPARK_MODULES, "spark")
    from mangrove.cli.conversation import Conversation
    from mangrove.cli.shell import Shell
    from mangrove.cli.shell_words import prompt_text

    shell = Shell(partial(Conversation, session, lake), lambda file: session.file(file)[1].decode("utf-8-sig"))
    typed = _typing(shell, _history_file(history))
    sys.stdout.write(f"{opened.uri}, version {opened.version}. \\? shows short commands, Ctrl-D leaves.\n")
    goes_on = True
    while goes_on:
        try:
            goes_on = shell.answer(typed.prompt(prompt_text(shell.talk.namespace, shell.talk.isolation)))
        except KeyboardInterrupt:
            continue
        except EOFError:
            goes_on = False
    if shell.talk.in_transaction:
        sys.stderr.write("the open transaction was rolled back\n")
    shell.talk.close()


def _typing(shell: "Shell", history: Path) -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

    from mangrove.cli.shell_words import is_whole, suggestions

    class Words(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
            found = suggestions(document.text_before_cursor, shell.names, shell.columns)
            return (Completion(text, start_position=-length) for text, length in found)

    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return PromptSession(
        history=FileHistory(str(history)),
        completer=Words(),
        complete_while_typing=False,
        key_bindings=bindings,
        lexer=PygmentsLexer(SqlLexer) if not os.environ.get("NO_COLOR") else None,
        multiline=True,
        prompt_continuation=lambda width, *_: "." * max(0, width - 1) + " ",
    )


def _history_file(given: str | None) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = Path(given) if given else Path(state) / "mangrove" / "history.sql"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be written ({error.strerror}): name another file with --history"
        ) from error
    return path
