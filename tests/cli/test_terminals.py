"""The commands on terminals: wide, narrow, without colours, without Unicode, and in pipes that close early."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len

COMMAND = [sys.executable, "-c", "from mangrove.cli.main import main; main()"]
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SHOWN = (
    ["ls"],
    ["ls", "sales"],
    ["show"],
    ["show", "sales.orders"],
    ["history"],
    ["history", "--graph"],
    ["diff", "0"],
    ["tree"],
)


def environment(**more: str) -> dict[str, str]:
    left_out = ("MANGROVE_LAKE", "COLUMNS", "NO_COLOR", "LANG", "LC_ALL", "PYTHONIOENCODING")
    return {**{name: value for name, value in os.environ.items() if name not in left_out}, **more}


def on_terminal(words: Sequence[str], columns: int, **more: str) -> str:
    """Return what a terminal of that width shows, with its codes."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        [*COMMAND, *words],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(**{"TERM": "xterm", **more}),
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                piece = os.read(controller, 65_536)
            except OSError:  # what Linux says where the other side is closed
                break
            if not piece:
                break
            shown += piece
    os.close(controller)
    assert process.returncode == 0, shown
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(lake: str, words: list[str], columns: int) -> None:
    shown = CODES.sub("", on_terminal([words[0], lake, *words[1:]], columns))
    uri = Path(lake).as_uri()
    assert [line for line in shown.splitlines() if cell_len(line) > columns and uri not in line] == []


def test_a_terminal_has_colours_unless_they_are_disabled(lake: str) -> None:
    words = ["ls", lake]
    assert "\x1b[" in on_terminal(words, 80)
    assert "\x1b[" not in on_terminal(words, 80, NO_COLOR="1")
    assert "\x1b[" not in on_terminal(words, 80, TERM="dumb")


def test_an_output_without_unicode_loses_nothing_and_json_stays_valid(lake: str) -> None:
    subprocess.run([*COMMAND, "create", lake, "straße"], check=True, capture_output=True, env=environment())
    plain = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    for words in (["ls", lake], ["history", lake, "--graph"], ["tree", lake], ["show", lake, "sales.orders"]):
        done = subprocess.run([*COMMAND, *words], capture_output=True, env=environment(**plain), check=False)
        assert (done.returncode, done.stderr) == (0, b""), words
        assert done.stdout.isascii()
    told = subprocess.run([*COMMAND, "ls", lake, "--json"], capture_output=True, env=environment(**plain), check=True)
    assert {one["name"] for one in json.loads(told.stdout)} == {"sales", "straße"}


DIGITS = ", ".join(f"({digit})" for digit in range(10))
MANY_ROWS = "select * from " + " cross join ".join(f"(values {DIGITS}) as t{place}(d{place})" for place in range(5))


@pytest.mark.parametrize(
    "words",
    [
        ["history"],
        ["read", "sales.orders"],
        ["show", "sales.orders", "--json"],
        ["sql", MANY_ROWS, "--engine", "duckdb", "--format", "ndjson"],
    ],
    ids=lambda words: words[0],
)
def test_a_pipe_that_closes_early_causes_no_error_message(lake: str, words: list[str]) -> None:
    line = " ".join(["exec", '"$@"', "|", "head", "-c", "1"])
    script = ["bash", "-c", line, "bash", *COMMAND, words[0], lake, *words[1:]]
    done = subprocess.run(script, capture_output=True, text=True, env=environment(), check=False)
    assert done.stderr == ""


def test_an_unwritable_folder_is_reported_in_one_sentence_with_a_remedy() -> None:
    done = subprocess.run(
        [*COMMAND, "init", "/proc/lake"], capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "could not be written" in done.stderr
