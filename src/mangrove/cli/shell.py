"""The SQL shell: reads statements, runs them, shows what came of them, and goes on after every error."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rich.console import RenderableType

from mangrove.cli.catalog_views import facts_table
from mangrove.cli.conversation import Conversation
from mangrove.cli.history_views import log_view
from mangrove.cli.screen import draw
from mangrove.cli.shell_words import HELP, Short, short_command
from mangrove.cli.sql_output import show_result
from mangrove.errors import InvalidInputError, MangroveError, NotFoundError
from mangrove.sql.session import SqlSession

__all__ = ["Shell"]

_VERSIONS_SHOWN = 20
_MAY_HAVE_COMMITTED = "and whether it committed is not known: \\log shows the versions"


@dataclass(slots=True)
class Shell:
    """A conversation; `begin` makes another one when a statement is abandoned, `read_file` gives the text of a file."""

    begin: Callable[[], Conversation]
    read_file: Callable[[str], str]
    with_timing: bool = False
    conversation: Conversation = field(init=False)
    _columns: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.conversation = self.begin()

    @property
    def talk(self) -> SqlSession:
        """The session in which statements run."""
        return self.conversation.talk

    def answer(self, text: str) -> bool:
        """Do what a line says, and return whether the conversation goes on.

        What cannot be done is said, and an interrupted statement leaves nothing behind.
        """
        try:
            return self._answer(text)
        except MangroveError as error:
            _complain(str(error))
        return True

    def names(self) -> Sequence[str]:
        """Return the names of namespaces, tables and views, for completion."""
        with suppress(MangroveError):
            return self.talk.names()
        return ()

    def columns(self, name: str) -> Sequence[str]:
        """Return the columns of a table, for completion; none where it is no table."""
        if name not in self._columns:
            schema = None
            with suppress(MangroveError):
                schema = self.talk.lake.table(name).schema
            self._columns[name] = () if schema is None else tuple(column.name for column in schema.columns)
        return self._columns[name]

    def _answer(self, text: str) -> bool:
        if not self.conversation.is_over:
            self.conversation.gate.begin_statement()
        try:
            short = short_command(text)
            if short is None:
                self._run(text)
                return True
            return self._short(short)
        except KeyboardInterrupt:
            if self.conversation.is_over:
                self._abandon()
            elif self.conversation.gate.has_begun_commit:
                _complain(f"the statement was cancelled, {_MAY_HAVE_COMMITTED}")
            else:
                _complain("the statement was cancelled: it changed nothing")
        return True

    def _run(self, text: str) -> None:
        if self.conversation.is_over:
            self._abandon()
        conversation = self.conversation
        conversation.run(lambda: self._statements(conversation, text))

    def _statements(self, conversation: Conversation, text: str) -> None:
        def draw_unless_abandoned(view: RenderableType) -> None:
            if conversation is self.conversation:
                draw(view)

        began = time.monotonic()
        for result in conversation.script(text):
            show_result(result, draw=draw_unless_abandoned)
            if self.with_timing and conversation is self.conversation:
                sys.stderr.write(f"({time.monotonic() - began:.1f} s)\n")
            began = time.monotonic()
        # A statement may have changed any table.
        self._columns.clear()

    def _abandon(self) -> None:
        """Go on in another conversation; the statement that still runs can no longer commit."""
        abandoned = self.conversation
        abandoned.abandon()
        if abandoned.gate.has_begun_commit:
            _complain(f"the statement was abandoned, {_MAY_HAVE_COMMITTED}")
        else:
            _complain("the statement was abandoned: it changed nothing, and cannot commit any more")
        if abandoned.talk.in_transaction:
            _complain("the open transaction was rolled back")
        self.conversation = self.begin()
        self.talk.namespace = abandoned.talk.namespace

    def _short(self, short: Short) -> bool:
        match short:
            case Short("\\q"):
                return False
            case Short("\\?"):
                draw(facts_table(list(HELP)))
            case Short("\\timing"):
                self.with_timing = not self.with_timing
                draw(f"timing is {'on' if self.with_timing else 'off'}")
            case Short("\\d", ""):
                self._run("show namespaces")
            case Short("\\d", name):
                self._run(f"describe table {name}")
            case Short("\\t", namespace):
                self._show_tables(namespace)
            case Short("\\log"):
                draw(log_view(list(self.talk.lake.history(limit=_VERSIONS_SHOWN))))
            case Short("\\use", namespace):
                self._run(f"use {_needed(namespace, short)}")
            case Short("\\i", file):
                self._run(self.read_file(_needed(file, short)))
        return True

    def _show_tables(self, namespace: str) -> None:
        wanted = f"{namespace}." if namespace else ""
        found = [name for name in self.talk.names(wanted) if "." in name]
        if not found:
            where = f" in {namespace}" if namespace else ""
            raise NotFoundError(f"there are no tables and views{where}: \\d lists the namespaces")
        draw("\n".join(found))


def _needed(argument: str, short: Short) -> str:
    if not argument:
        usage = next(name for name, _ in HELP if name.startswith(short.name))
        raise InvalidInputError(f"{short.name} needs more: write {usage}")
    return argument


def _complain(message: str) -> None:
    sys.stderr.write(f"{message}\n")
