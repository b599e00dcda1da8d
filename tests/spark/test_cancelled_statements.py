"""Ctrl-C on statements that Spark runs: in the shell on a terminal, in `mangrove sql`, and where jobs come later."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import SHORT_LIVED

import mangrove
from mangrove.notebook import NotebookSql
from mangrove.spark.job_group import GROUP_PROPERTY, cancel_job_group, enter_job_group, leave_job_group
from mangrove.spark.statements import RUNTIME_ERRORS

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.xdist_group("spark-processes")]

COMMAND = [sys.executable, "-c", "from mangrove.cli.main import main; main()"]
ENDLESS = "select sum(hash(a.id, b.id, c.id, d.id)) from shop.t a, shop.t b, shop.t c, shop.t d"
"""A cross join of so many rows that nobody waits for it."""


@pytest.fixture
def lake(tmp_path: Path) -> str:
    made = mangrove.create(tmp_path / "lake")
    made.create_namespace("shop")
    made.create_table("shop.t", "id bigint").append([{"id": number} for number in range(5000)])
    made.create_table("shop.sums", "total bigint")
    return str(tmp_path / "lake")


class Terminal:
    """A command on a terminal of its own, whose Ctrl-C it gets as a person's."""

    def __init__(self, words: list[str]) -> None:
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            more = {"TERM": "xterm", "NO_COLOR": "1", "PROMPT_TOOLKIT_NO_CPR": "1"}
            os.execve(COMMAND[0], [*COMMAND, *words], {**os.environ, **SHORT_LIVED, **more})
        self._shown = b""

    def write(self, text: str) -> None:
        os.write(self._end, text.encode())

    def read_until(self, text: str) -> str:
        """Return what was shown up to and with the text; only the limit of a test ends the wait."""
        wanted = text.encode()
        while wanted not in self._shown:
            assert select.select([self._end], [], [], 300)[0], self._shown
            self._shown += os.read(self._end, 65_536)
        end = self._shown.index(wanted) + len(wanted)
        shown, self._shown = self._shown[:end], self._shown[end:]
        return shown.decode(errors="replace")

    def close(self) -> int:
        os.close(self._end)
        os.kill(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, 0)[1]


@pytest.fixture
def shell(lake: str, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(["shell", lake, "--engine", "spark", "--history", str(tmp_path / "history")])
    yield terminal
    terminal.close()


def test_ctrl_c_ends_a_cross_join_in_the_shell_and_two_of_them_return_the_prompt(shell: Terminal, lake: str) -> None:
    before = mangrove.open(lake).version
    shell.read_until("default>")
    # That the first statement was answered shows that the second is under way.
    shell.write(f"select 10 + 1 as begun; insert into shop.sums {ENDLESS};\r")
    shell.read_until("11")
    shell.write("\x03")
    assert "cancelled and changed nothing" in shell.read_until("nothing")
    shell.read_until("default>")
    shell.write(f"select 20 + 2 as begun; insert into shop.sums {ENDLESS};\r")
    shell.read_until("22")
    shell.write("\x03")
    shell.write("\x03")
    assert "changed nothing" in shell.read_until("nothing")
    shell.read_until("default>")
    shell.write("select 30 + 3 as alive;\r")
    shell.read_until("33")
    assert mangrove.open(lake).version == before


def test_ctrl_c_ends_a_cross_join_of_a_command(lake: str) -> None:
    words = ["sql", lake, "--engine", "spark", "--json", f"select 1 as begun; insert into shop.sums {ENDLESS}"]
    before = mangrove.open(lake).version
    with subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # The output is buffered, as it is for users.
        env={**os.environ, **SHORT_LIVED, "PYTHONUNBUFFERED": ""},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        assert "begun" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=500)
    assert (process.returncode, "interrupted" in said) == (1, True)
    assert mangrove.open(lake).version == before


def test_a_job_that_a_cancelled_group_submits_later_is_cancelled_too(spark: SparkSession) -> None:
    # A group that an earlier test left in this thread would be kept.
    spark.sparkContext.setLocalProperty(GROUP_PROPERTY, None)  # type: ignore[arg-type]
    enter_job_group(spark, "first")
    cancel_job_group(spark, "first")
    with pytest.raises(RUNTIME_ERRORS, match="cancelled"):
        spark.range(10).repartition(2).count()
    leave_job_group(spark, "first")
    assert spark.range(10).repartition(2).count() == 10


def test_a_job_group_of_the_caller_is_preserved(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setLocalProperty(GROUP_PROPERTY, "theirs")
    enter_job_group(spark, "ours")
    assert context.getLocalProperty(GROUP_PROPERTY) == "theirs"
    leave_job_group(spark, "ours")
    assert context.getLocalProperty(GROUP_PROPERTY) == "theirs"
    context.setLocalProperty(GROUP_PROPERTY, None)  # type: ignore[arg-type]


def test_ctrl_c_in_a_notebook_cancels_also_the_jobs_that_the_cell_submits_later(lake: str, spark: SparkSession) -> None:
    groups: list[str] = []

    class Variables(dict[str, object]):
        """Variables of a notebook, whose user presses Ctrl-C when the cell asks for one."""

        def __getitem__(self, name: str) -> object:
            groups.append(spark.sparkContext.getLocalProperty(GROUP_PROPERTY) or "")
            raise KeyboardInterrupt

    notebook = NotebookSql(mangrove.open, Variables(day=1))
    notebook.magic(lake, "select count(*) from shop.t")
    with pytest.raises(KeyboardInterrupt):
        notebook.magic("", "select count(*) from shop.t where id = :day")
    (group,) = groups
    enter_job_group(spark, group)
    with pytest.raises(RUNTIME_ERRORS, match="cancelled"):
        spark.range(10).repartition(2).count()
    leave_job_group(spark, group)
