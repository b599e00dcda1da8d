"""The SQL shell, without a terminal and without Spark: what its lines mean, and what it answers."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mangrove
from mangrove.cli.cancellable_session import CancellableRunner, CancellableSession, WriteFence
from mangrove.cli.context import CommandContext
from mangrove.cli.shell import Shell, complete_input, format_prompt, is_input_complete, parse_meta_command
from mangrove.cli.shell_output import ShellOutput
from mangrove.errors import InvalidInputError
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.port import Store

COLUMNS: Callable[[str], list[str]] = {"sales.orders": ["id", "customer"]}.get  # type: ignore[assignment]


@pytest.fixture
def shell(lake: str) -> Shell:
    return shell_on(CommandContext(), lake)


def shell_on(session: CommandContext, lake: str) -> Shell:
    return Shell(partial(CancellableSession, session, lake), lambda file: Path(file).read_text("utf-8"))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("select 1", False),
        ("select 1;", True),
        ("select ';", False),
        ("select 1; -- more", True),
        ("select 1; select 2", False),
        ("\\d", True),
        ("quit", True),
        (".tables", True),
        ("begin select 1;", False),
        ("begin select 1; end;", True),
        ("begin;", True),
        ("/* open", False),
    ],
)
def test_return_ends_the_input_only_where_a_statement_ends(text: str, whole: bool) -> None:
    assert is_input_complete(text) is whole


def test_the_error_for_an_unknown_meta_command_refers_to_the_list() -> None:
    with pytest.raises(InvalidInputError, match=r"\\\? lists"):
        parse_meta_command("\\nosuch")
    with pytest.raises(InvalidInputError, match=r"unknown command \.nosuch"):
        parse_meta_command(".nosuch")


def test_commands_have_the_names_of_other_shells_too() -> None:
    named = [parse_meta_command(text) for text in (".tables shop", "\\dt", ".help", ".quit", ".read a.sql", ".output")]
    assert [one and (one.name, one.argument) for one in named] == [
        ("\\t", "shop"),
        ("\\t", ""),
        ("\\?", ""),
        ("\\q", ""),
        ("\\i", "a.sql"),
        ("\\o", ""),
    ]


def test_completion_offers_names_columns_of_named_tables_and_keywords() -> None:
    names = ["sales", "sales.orders"]

    def offered(text: str) -> list[str]:
        return [one for one, _ in complete_input(text, lambda: names, lambda name: COLUMNS(name) or [])]

    assert offered("select * from sal") == ["sales", "sales.orders"]
    assert "customer" in offered("select * from sales.orders where cust")
    assert "customer" not in offered("select cust")
    assert offered("SEL") == ["SELECT"]
    assert offered("sel") == ["select"]
    assert offered("\\h") == ["\\history"]
    assert offered("") == []


def test_the_prompt_marks_an_open_transaction(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert format_prompt(shell.sql_session.namespace, shell.sql_session.isolation) == "default> "
    assert shell.answer("begin isolation level serializable;")
    assert format_prompt(shell.sql_session.namespace, shell.sql_session.isolation) == "default*serializable> "
    assert shell.answer("create namespace more;")
    assert shell.answer("rollback;")
    assert format_prompt(shell.sql_session.namespace, shell.sql_session.isolation) == "default> "
    assert shell.answer("\\t")
    told = capsys.readouterr()
    assert "sales.orders" in told.out
    assert "more" not in {one.name for one in shell.sql_session.lake.namespaces()}


def test_meta_commands_print_results(shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "make.sql").write_text("create namespace made;\ncreate table made.t (id bigint);\n")
    for line in (
        "\\d",
        "\\d sales.orders",
        "\\t sales",
        "\\history",
        "\\use sales",
        "\\?",
        "\\timing",
        f"\\i {tmp_path}/make.sql",
    ):
        assert shell.answer(line)
    told = capsys.readouterr()
    for wanted in ("customer", "sales.daily", "create table sales.orders", "timing is on", "list tables and views"):
        assert wanted in told.out
    assert shell.sql_session.namespace == "sales"
    assert "made.t" in shell.names()
    assert shell.columns("made.t") == ("id",)
    assert shell.columns("sales.daily") == ()
    assert not shell.answer("\\q")


@pytest.mark.parametrize(
    "line", ["\\nosuch", "\\use", "\\use nosuch", "\\t nosuch", "\\d nosuch.x", "drop table nosuch.x;"]
)
def test_the_session_continues_after_an_error(shell: Shell, capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert shell.answer(line)
    told = capsys.readouterr()
    assert (told.out, bool(told.err)) == ("", True)


def test_a_cancelled_statement_changes_nothing(
    shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    before = shell.sql_session.lake.version
    monkeypatch.setattr("mangrove.cli.shell.print_result", interrupted)
    assert shell.answer("begin; create namespace more;")
    assert "cancelled" in capsys.readouterr().err
    assert shell.sql_session.lake.version == before


@pytest.fixture
def keys_interrupt() -> Iterator[None]:
    """Let Ctrl-C mean what it does at a terminal; who started the tests in the background had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c() -> None:
    """Interrupt the thread that waits, as a terminal does."""
    waiting = threading.main_thread().ident
    assert waiting is not None
    signal.pthread_kill(waiting, signal.SIGINT)


@pytest.mark.usefixtures("keys_interrupt")
def test_ctrl_c_stops_the_work_before_it_is_reported_and_the_next_work_runs() -> None:
    started, stopped = threading.Event(), threading.Event()
    seen: list[str] = []

    def work() -> None:
        started.set()
        press_ctrl_c()
        stopped.wait(60)
        seen.append("stopped")
        raise InvalidInputError("cancelled by Spark")

    cancelling = CancellableRunner(stopped.set)
    with pytest.raises(KeyboardInterrupt):
        cancelling.run(work)
    assert (started.is_set(), seen) == (True, ["stopped"])
    assert cancelling.run(lambda: "next") == "next"


@pytest.mark.usefixtures("keys_interrupt")
def test_work_that_was_done_before_it_could_be_stopped_is_reported_as_done() -> None:
    told = threading.Event()

    def work() -> str:
        press_ctrl_c()
        told.wait(60)
        return "done"

    assert CancellableRunner(told.set).run(work) == "done"


@pytest.mark.usefixtures("keys_interrupt")
def test_a_statement_is_cancelled_again_until_it_has_ended() -> None:
    cancelled = threading.Semaphore(0)

    def work() -> None:
        press_ctrl_c()
        # What a first cancellation missed, such as a job that was not submitted yet, a later one meets.
        for _ in range(3):
            assert cancelled.acquire(timeout=60)
        raise InvalidInputError("cancelled by Spark")

    with pytest.raises(KeyboardInterrupt):
        CancellableRunner(cancelled.release).run(work)


@pytest.mark.usefixtures("keys_interrupt")
def test_a_second_ctrl_c_abandons_a_statement_that_does_not_end() -> None:
    end = threading.Event()

    def work() -> None:
        press_ctrl_c()
        end.wait(60)

    cancelling = CancellableRunner(press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        cancelling.run(work)
    assert cancelling.is_busy
    end.set()


@pytest.mark.usefixtures("keys_interrupt")
def test_ctrl_c_stops_the_remaining_statements_of_a_script(shell: Shell) -> None:
    conversation = shell.conversation

    def work() -> None:
        for number, _ in enumerate(conversation.script("create namespace one; create namespace two;")):
            if number == 0:
                press_ctrl_c()
                wait_for(lambda: conversation.cancelling.is_cancelled)

    with pytest.raises(KeyboardInterrupt):
        conversation.run(work)
    assert {one.name for one in shell.sql_session.lake.namespaces()} >= {"one"}
    assert "two" not in {one.name for one in shell.sql_session.lake.namespaces()}


@dataclass(frozen=True)
class BlockedSession(CommandContext):
    """Presses Ctrl-C twice when a statement is about to commit, and lets it go on when it was abandoned."""

    holds_behind_gate: bool = False
    begun: list[CancellableRunner] = field(default_factory=list)
    abandoned: threading.Event = field(default_factory=threading.Event)

    def store(self, location: str | os.PathLike[str], fence: WriteFence | None = None) -> Store:
        if self.holds_behind_gate and fence is not None:
            return CountingStore(CountingStore(super().store(location), self.check), fence.check)
        return CountingStore(super().store(location, fence), self.check)

    def check(self, made: StoreRequests) -> None:
        if made.creates and self.begun:
            cancelling = self.begun.pop()
            press_ctrl_c()
            wait_for(lambda: cancelling.is_cancelled)
            press_ctrl_c()
            self.abandoned.wait(60)


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.01)


@pytest.mark.usefixtures("keys_interrupt")
@pytest.mark.parametrize("behind_gate", [False, True])
def test_a_statement_abandoned_before_its_commit_never_commits_and_later_its_outcome_is_unknown(
    lake: str, capsys: pytest.CaptureFixture[str], behind_gate: bool
) -> None:
    session = BlockedSession(holds_behind_gate=behind_gate)
    shell = shell_on(session, lake)
    abandoned = shell.conversation
    session.begun.append(abandoned.cancelling)
    before = shell.sql_session.lake.version
    assert shell.answer("create namespace late;")
    told = capsys.readouterr()
    assert (told.out, "abandoned" in told.err, "may have committed" in told.err) == ("", True, behind_gate)
    assert shell.conversation is not abandoned
    session.abandoned.set()
    wait_for(lambda: not abandoned.cancelling.is_busy)
    assert shell.sql_session.lake.version == before + behind_gate
    # The prompt is there, and the next statement runs.
    assert shell.answer("create namespace next;")
    assert "next" in {one.name for one in shell.sql_session.lake.namespaces()}
    assert capsys.readouterr().out.count("late") == 0


def test_the_shell_requires_a_terminal_and_refers_programs_to_sql(run: Any, lake: str) -> None:
    done = run("shell", lake)
    assert (done.code, "mangrove sql" in done.err) == (2, True)
    assert run("shell", lake, "--json").code == 2


@pytest.fixture
def duck_shell(lake: str) -> Iterator[Shell]:
    """Run queries without Spark, on a table of three rows."""
    mangrove.open(lake).table("sales.orders").append([{"id": number, "customer": "ana"} for number in range(3)])
    session = CommandContext()
    shell = Shell(partial(CancellableSession, session, lake, "duckdb"), lambda file: Path(file).read_text("utf-8"))
    yield shell
    shell.sql_session.close()
    shell.conversation.cancelling.stop()


def test_the_mode_sets_the_result_format(duck_shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    query = "select id, customer from sales.orders where id < 1;"
    for mode, expected in (
        ("csv", "id,customer\n0,ana\n"),
        ("ndjson", '{"id": 0, "customer": "ana"}\n'),
        ("json", '[\n  {"id": 0, "customer": "ana"}\n]\n'),
    ):
        assert duck_shell.answer(f".mode {mode}")
        capsys.readouterr()
        assert duck_shell.answer(query)
        assert capsys.readouterr().out == expected
    assert duck_shell.answer("show tables in sales;")
    assert '"orders"' in capsys.readouterr().out
    assert duck_shell.answer(".mode")
    assert "mode is json" in capsys.readouterr().out
    assert duck_shell.answer(".mode xml")
    assert "expected one of table, csv, json, ndjson" in capsys.readouterr().err


def test_results_go_to_a_file_until_the_terminal_is_chosen_again(
    duck_shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in (
        f"\\o {tmp_path}/out.txt",
        "select 1 as one;",
        ".mode csv",
        "select 2 as two;",
        "\\o",
        "select 3 as three;",
    ):
        assert duck_shell.answer(line)
    assert (tmp_path / "out.txt").read_text().split() == ["one", "───", "1", "two", "2"]
    assert "three\n3\n" in capsys.readouterr().out
    assert duck_shell.answer(f"\\o {tmp_path}/none/out.txt")
    assert "cannot write" in capsys.readouterr().err


def test_copy_writes_queries_to_files_and_appends_files_to_tables(
    duck_shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert duck_shell.answer(f"\\copy (select id + 10 as id from sales.orders) to {tmp_path}/ids.csv")
    assert duck_shell.answer(f"\\copy sales.orders to {tmp_path}/all.parquet")
    assert (tmp_path / "ids.csv").read_text() == "id\n10\n11\n12\n"
    assert pq.read_table(str(tmp_path / "all.parquet")).num_rows == 3
    assert duck_shell.answer("\\use sales")
    assert duck_shell.answer(f"\\copy orders from '{tmp_path}/ids.csv'")
    assert "loaded 3 rows into sales.orders (version " in capsys.readouterr().out
    assert duck_shell.sql_session.lake.table("sales.orders").count() == 6
    for line in ("begin;", f"\\copy orders from {tmp_path}/ids.csv", "rollback;"):
        assert duck_shell.answer(line)
    assert duck_shell.sql_session.lake.table("sales.orders").count() == 6


@pytest.mark.parametrize(
    "argument", ["", "sales.orders", "sales.orders to x.txt", "(select 1) from x.csv", "sales.orders from none.csv"]
)
def test_an_invalid_copy_is_rejected(duck_shell: Shell, capsys: pytest.CaptureFixture[str], argument: str) -> None:
    assert duck_shell.answer(f"\\copy {argument}")
    printed = capsys.readouterr()
    assert (printed.out, bool(printed.err)) == ("", True)


def test_columns_of_tables_after_the_cursor_are_offered_too() -> None:
    offered = complete_input(
        "select cust", lambda: ["sales.orders"], lambda name: COLUMNS(name) or [], " from sales.orders"
    )
    assert [one for one, _ in offered] == ["customer"]
    assert complete_input(".m", list, lambda _: []) == [(".mode", 2)]
    assert [one for one, _ in complete_input("\\co", list, lambda _: [])] == ["\\copy"]


def test_results_longer_than_the_terminal_are_paged_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("LINES", "5")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("click.echo_via_pager", lambda text, color: pages.append(text))
    output = ShellOutput()
    assert not output.page("short")
    assert output.page("\n" * 10 + "long")
    assert output.page("after it")
    output.show_pages()
    output.show_pages()
    assert pages == ["\n" * 10 + "long\nafter it"]
    output.with_pager = False
    assert not output.page("\n" * 10)
