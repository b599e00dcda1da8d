"""Interactive SQL shell with history, completion and meta-commands."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import RenderableType

from mangrove.cli.cancellable_session import CancellableSession
from mangrove.cli.catalog import build_property_table
from mangrove.cli.command import lake_command
from mangrove.cli.context import CommandContext
from mangrove.cli.history import render_history
from mangrove.cli.shell_output import ShellOutput, parse_copy, run_copy
from mangrove.cli.sql import ENGINE_OPTION, print_result
from mangrove.cli.terminal import draw
from mangrove.errors import InvalidInputError, MangroveError, NotFoundError
from mangrove.sql.parse.tokens import SqlTokenKind, split_script, tokenize
from mangrove.sql.session import SqlSession

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession


__all__ = [
    "SHELL_HELP",
    "MetaCommand",
    "Shell",
    "complete_input",
    "format_prompt",
    "is_input_complete",
    "parse_meta_command",
    "shell_command",
]

SHELL_HELP = (
    ("\\d", "list namespaces, or describe the table with the given name"),
    ("\\t [NAMESPACE]", "list tables and views"),
    ("\\history", "list the versions, newest first"),
    ("\\use NAMESPACE", "set the current namespace"),
    ("\\i FILE", "run the statements of a file"),
    ("\\o [FILE]", "write results to a file, or to the terminal again"),
    (".mode [FORMAT]", "print results as table, csv, json or ndjson"),
    ("\\copy SOURCE to FILE", "write a table or (QUERY) to a csv, json, ndjson or parquet file"),
    ("\\copy TABLE from FILE", "append the rows of a csv, jsonl or parquet file to a table"),
    ("\\pager", "turn the pager of long results on or off"),
    ("\\timing", "turn the timing of statements on or off"),
    ("\\?", "show this help, like .help"),
    ("\\q", "quit, like Ctrl-D"),
)
"""The meta-commands with their descriptions."""

_KEYWORDS = (
    "ALTER", "AND", "AS", "ASC", "BEGIN", "BETWEEN", "BY", "CALL", "CASE", "CAST", "COMMIT", "COUNT", "CREATE",
    "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DROP", "ELSE", "END", "EXISTS", "EXPLAIN", "FROM", "GRANT", "GROUP",
    "HAVING", "IN", "INSERT", "INTO", "IS", "JOIN", "LEFT", "LIKE", "LIMIT", "MERGE", "NAMESPACE", "NOT", "NULL", "ON",
    "OR", "ORDER", "OVERWRITE", "PARTITIONED", "PRIMARY KEY", "REVOKE", "ROLLBACK", "SELECT", "SET", "SHOW GRANTS",
    "SHOW HISTORY", "SHOW NAMESPACES", "SHOW TABLES", "SUM", "TABLE", "THEN", "TIMESTAMP AS OF", "TRUNCATE", "UNION",
    "UPDATE", "USE", "USING", "VALUES", "VERSION AS OF", "VIEW", "WHEN", "WHERE", "WITH",
)  # fmt: skip
_WORD = re.compile(r"[\w.`]*$")
_META_PREFIXES = ("\\", ".")
_SYNONYMS = {
    "exit": "\\q", "quit": "\\q", ".exit": "\\q", ".quit": "\\q", ".help": "\\?", "\\dt": "\\t", ".tables": "\\t",
    ".read": "\\i", ".output": "\\o",
}  # fmt: skip
"""What other shells call the meta-commands."""
_QUIT_WORDS = frozenset({"exit", "quit"})


@dataclass(frozen=True, slots=True)
class MetaCommand:
    """A meta-command and its argument."""

    name: str
    argument: str = ""


def parse_meta_command(text: str) -> MetaCommand | None:
    r"""Return the meta-command of a line, or None for SQL.

    >>> parse_meta_command("\\d shop.orders")
    MetaCommand(name='\\d', argument='shop.orders')
    >>> parse_meta_command("quit;"), parse_meta_command("select 1")
    (MetaCommand(name='\\q', argument=''), None)
    """
    words = text.strip().rstrip(";").split(maxsplit=1)
    if not words:
        return None
    is_quit = words[0].lower() in _QUIT_WORDS and len(words) == 1
    if not is_quit and not words[0].startswith(_META_PREFIXES):
        return None
    name = _SYNONYMS.get(words[0].lower(), words[0])
    if name not in {usage.split()[0] for usage, _ in SHELL_HELP}:
        raise InvalidInputError(f"unknown command {words[0]}; \\? lists all commands")
    return MetaCommand(name, words[1].strip() if len(words) == 2 else "")


def is_input_complete(text: str) -> bool:
    r"""Return whether Enter submits the input: a meta-command, an empty line, or statements that end with a semicolon.

    >>> [is_input_complete(text) for text in ("select 1", "select 1;", "select ';", "\\d", "quit")]
    [False, True, False, True, True]
    """
    stripped = text.strip()
    if not stripped or stripped.startswith(_META_PREFIXES) or stripped.lower() in _QUIT_WORDS:
        return True
    try:
        tokens = [token for token in tokenize(stripped) if token.kind is not SqlTokenKind.END]
        parts = split_script(stripped)
    except InvalidInputError:
        # A quote is still open.
        return False
    is_ended = bool(tokens) and tokens[-1].text == ";"
    # Inside a block the last semicolon belongs to a statement of the block.
    return is_ended and not (parts and parts[-1].text.endswith(";"))


def format_prompt(namespace: str, isolation: str | None) -> str:
    """Return the prompt; a star marks an open transaction.

    >>> format_prompt("default", None), format_prompt("shop", "serializable")
    ('default> ', 'shop*serializable> ')
    """
    return f"{namespace}> " if isolation is None else f"{namespace}*{isolation}> "


def complete_input(
    before: str, names: Callable[[], Iterable[str]], columns: Callable[[str], Sequence[str]], after: str = ""
) -> list[tuple[str, int]]:
    """Return the completions, each with the number of input characters that it replaces.

    `names` returns tables, views and namespaces; `columns` the columns of a table. Columns are
    those of the tables named `before` or `after` the cursor.
    """
    typed = before.lstrip()
    if typed.startswith(("\\", ".")) and " " not in typed:
        commands = dict.fromkeys(name.split()[0] for name, _ in SHELL_HELP)
        return [(name, len(typed)) for name in commands if name.startswith(typed)]
    match = _WORD.search(before)
    word = match[0] if match else ""
    if not word:
        return []
    known = list(names())
    referenced = [name for name in known if name in before or name in after]
    candidates = [
        *(column for name in referenced for column in columns(name)),
        *known,
        *(keyword.lower() if word.islower() else keyword for keyword in _KEYWORDS),
    ]
    matches = [one for one in dict.fromkeys(candidates) if one.lower().startswith(word.lower()) and one != word]
    return [(one, len(word)) for one in matches]


_SHELL_VERSIONS_MAX = 20
_MAY_HAVE_COMMITTED = "but it may have committed; use \\history to check"


@dataclass(slots=True)
class Shell:
    """The interactive shell. `begin` opens a new conversation after a statement was abandoned."""

    begin: Callable[[], CancellableSession]
    read_file: Callable[[str], str]
    with_timing: bool = False
    output: ShellOutput = field(default_factory=ShellOutput)
    conversation: CancellableSession = field(init=False)
    _columns: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.conversation = self.begin()

    @property
    def sql_session(self) -> SqlSession:
        """The current SQL session."""
        return self.conversation.sql_session

    def answer(self, text: str) -> bool:
        """Execute a line of input, print errors, and return False to quit."""
        try:
            return self._answer(text)
        except MangroveError as error:
            _print_error(str(error))
        return True

    def names(self) -> Sequence[str]:
        """Return the names of namespaces, tables and views for completion."""
        with suppress(MangroveError):
            return self.sql_session.names()
        return ()

    def columns(self, name: str) -> Sequence[str]:
        """Return the columns of a table for completion; empty if there is no such table."""
        if name not in self._columns:
            schema = None
            with suppress(MangroveError):
                schema = self.sql_session.lake.table(name).schema
            self._columns[name] = () if schema is None else tuple(column.name for column in schema.columns)
        return self._columns[name]

    def _answer(self, text: str) -> bool:
        if not self.conversation.is_over:
            self.conversation.fence.begin_statement()
        try:
            command = parse_meta_command(text)
            if command is None:
                self._run(text)
                return True
            return self._run_meta_command(command)
        except KeyboardInterrupt:
            if self.conversation.is_over:
                self._abandon()
            elif self.conversation.fence.has_begun_commit:
                _print_error(f"the statement was cancelled, {_MAY_HAVE_COMMITTED}")
            else:
                _print_error("the statement was cancelled and changed nothing")
        return True

    def _run(self, text: str) -> None:
        if self.conversation.is_over:
            self._abandon()
        conversation = self.conversation
        conversation.run(lambda: self._statements(conversation, text))
        self.output.show_pages()

    def _statements(self, conversation: CancellableSession, text: str) -> None:
        def draw_unless_abandoned(view: RenderableType) -> None:
            if conversation is self.conversation and not (isinstance(view, str) and self.output.page(view)):
                draw(view)

        began = time.monotonic()
        for result in conversation.script(text):
            if not self.output.write(result):
                print_result(result, draw=draw_unless_abandoned)
            if self.with_timing and conversation is self.conversation:
                engine = "" if result.engine is None else f" on {result.engine.name}"
                sys.stderr.write(f"({time.monotonic() - began:.1f} s{engine})\n")
            began = time.monotonic()
        # A statement may have changed any table.
        self._columns.clear()

    def _abandon(self) -> None:
        """Start a new conversation; the statement that still runs can no longer commit."""
        abandoned = self.conversation
        abandoned.abandon()
        if abandoned.fence.has_begun_commit:
            _print_error(f"the statement was abandoned, {_MAY_HAVE_COMMITTED}")
        else:
            _print_error("the statement was abandoned; it changed nothing and can no longer commit")
        if abandoned.sql_session.in_transaction:
            _print_error("the open transaction was rolled back")
        self.conversation = self.begin()
        self.sql_session.namespace = abandoned.sql_session.namespace

    def _run_meta_command(self, command: MetaCommand) -> bool:
        match command:
            case MetaCommand("\\q"):
                return False
            case MetaCommand("\\?"):
                draw(build_property_table(list(SHELL_HELP)))
            case MetaCommand("\\timing"):
                self.with_timing = not self.with_timing
                draw(f"timing is {'on' if self.with_timing else 'off'}")
            case MetaCommand("\\o", file):
                draw(self.output.set_file(file))
            case MetaCommand(".mode", mode):
                draw(self.output.set_mode(mode))
            case MetaCommand("\\pager"):
                self.output.with_pager = not self.output.with_pager
                draw(f"pager is {'on' if self.output.with_pager else 'off'}")
            case MetaCommand("\\copy", argument):
                conversation, copy = self.conversation, parse_copy(argument)
                draw(conversation.run(lambda: run_copy(conversation, copy)))
            case MetaCommand("\\d", ""):
                self._run("show namespaces")
            case MetaCommand("\\d", name):
                self._run(f"describe table {name}")
            case MetaCommand("\\t", namespace):
                self._show_tables(namespace)
            case MetaCommand("\\history"):
                draw(render_history(list(self.sql_session.lake.history(limit=_SHELL_VERSIONS_MAX))))
            case MetaCommand("\\use", namespace):
                self._run(f"use {_require_argument(namespace, command)}")
            case MetaCommand("\\i", file):
                self._run(self.read_file(_require_argument(file, command)))
        return True

    def _show_tables(self, namespace: str) -> None:
        prefix = f"{namespace}." if namespace else ""
        names = [name for name in self.sql_session.names(prefix) if "." in name]
        if not names:
            where = f" in {namespace}" if namespace else ""
            raise NotFoundError(f"no tables or views{where}; \\d lists the namespaces")
        draw("\n".join(names))


def _require_argument(argument: str, command: MetaCommand) -> str:
    if not argument:
        usage = next(name for name, _ in SHELL_HELP if name.startswith(command.name))
        raise InvalidInputError(f"{command.name} requires an argument; usage: {usage}")
    return argument


def _print_error(message: str) -> None:
    sys.stderr.write(f"{message}\n")


# Spark and prompt_toolkit are optional and slow to import.
# ruff: noqa: PLC0415


@lake_command("shell", "mangrove shell ./lake")
@click.option("--history", metavar="FILE", help="History file.  [default: in the user's state folder]")
@ENGINE_OPTION
def shell_command(session: CommandContext, lake: str, history: str | None, engine: str | None) -> None:
    r"""Interactive SQL shell.

    Statements end with a semicolon; \? lists the meta-commands. Ctrl-C cancels the
    statement or clears the input, Ctrl-D quits. A second Ctrl-C returns to the prompt
    at once; the abandoned statement can no longer commit. The prompt shows an open
    transaction, which is rolled back on exit.
    """
    if session.as_json:
        raise InvalidInputError("the shell is interactive and has no --json; use `mangrove sql --json`")
    opened = session.open(lake)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInputError("the shell requires a terminal; use `mangrove sql` in scripts and pipes")
    shell = Shell(
        partial(CancellableSession, session, lake, engine), lambda file: session.file(file)[1].decode("utf-8-sig")
    )
    prompt_session = _create_prompt_session(shell, _create_history_file(history))
    sys.stdout.write(f"{opened.uri}, version {opened.version}. \\? shows help, Ctrl-D quits.\n")
    is_running = True
    while is_running:
        try:
            is_running = shell.answer(
                prompt_session.prompt(format_prompt(shell.sql_session.namespace, shell.sql_session.isolation))
            )
        except KeyboardInterrupt:
            continue
        except EOFError:
            is_running = False
    if shell.sql_session.in_transaction:
        sys.stderr.write("the open transaction was rolled back\n")
    shell.sql_session.close()
    shell.conversation.cancelling.stop()


def _create_prompt_session(shell: "Shell", history: Path) -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

    class SqlCompleter(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
            before, after = document.text_before_cursor, document.text_after_cursor
            completions = complete_input(before, shell.names, shell.columns, after)
            return (Completion(text, start_position=-length) for text, length in completions)

    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_input_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return PromptSession(
        history=FileHistory(str(history)),
        completer=SqlCompleter(),
        complete_while_typing=False,
        key_bindings=bindings,
        lexer=PygmentsLexer(SqlLexer) if not os.environ.get("NO_COLOR") else None,
        multiline=True,
        prompt_continuation=lambda width, *_: "." * max(0, width - 1) + " ",
    )


def _create_history_file(given: str | None) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = Path(given) if given else Path(state) / "mangrove" / "history.sql"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        raise InvalidInputError(
            f"cannot write the history file {path} ({error.strerror}); give another file with --history"
        ) from error
    return path
