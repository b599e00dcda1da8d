"""A shell completes names of the lakehouse that is meant, as the scripts of bash, zsh and fish ask for them."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mangrove.cli.main import main
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store

Tab = Callable[..., list[str]]


@pytest.fixture
def tab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tab:
    """Press TAB behind these words, of which the last is being typed, and return what a shell is offered."""
    monkeypatch.setattr("mangrove.cli.completion._WAIT_SECONDS", 600.0)

    def pressed(*words: str, shell: str = "bash") -> list[str]:
        monkeypatch.setenv("_MANGROVE_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("mangrove", *words)))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main([])
        printed = capsys.readouterr()
        monkeypatch.delenv("_MANGROVE_COMPLETE")
        assert printed.err == ""
        return [line for line in printed.out.splitlines() if line]

    return pressed


@pytest.fixture
def shop(lake: str, run: Any) -> str:
    """Add a second namespace that begins like the first, and a table that a shell would take for a command."""
    for name in ("salt", "sales.`o$(reboot)`"):
        assert run("create", lake, name, *(("--schema", "id int") if "." in name else ())).code == 0
    return lake


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("show", "LAKE", "sal"), ["plain,sales", "plain,salt"]),
        (("show", "LAKE", "sale"), ["plain,sales", "plain,sales.orders", "plain,sales.daily"]),
        (("show", "LAKE", "sales.d"), ["plain,sales.daily"]),
        (("read", "LAKE", "sal"), ["plain,sales.", "plain,salt."]),
        (("read", "LAKE", "sales.o"), ["plain,sales.orders"]),
        (("delete", "LAKE", "sales.or"), ["plain,sales.orders"]),
        (("ls", "LAKE", "salt"), ["plain,salt"]),
        (("read", "LAKE", "sales.orders", "--columns", "id,c"), ["plain,id,customer"]),
        (("read", "LAKE", "sales.orders", "--where", "a"), ["plain,amount"]),
        (("update", "LAKE", "sales.orders", "--set", "c"), ["plain,customer"]),
        (("read", "LAKE", "sales.orders", "--columns", "nothing"), []),
        (("show", "LAKE", "unknown.t"), []),
        (("show", "LAKE", "a.b.c"), []),
        (("show", "./la"), ["dir,./la"]),
        (("inspect", "./la"), ["file,./la"]),
        (("ingest", "LAKE", "sales.orders", "./old"), ["file,./old"]),
    ],
)  # fmt: skip
def test_a_word_is_completed_with_names_of_the_lakehouse(
    tab: Tab, shop: str, words: tuple[str, ...], offered: list[str]
) -> None:
    assert tab(*(shop if word == "LAKE" else word for word in words)) == offered


def test_the_lakehouse_of_the_environment_is_completed_too(
    tab: Tab, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANGROVE_LAKE", shop)
    assert tab("show", "sales.or") == ["plain,sales.orders"]
    assert tab("read", "sales.orders", "--columns", "am") == ["plain,amount"]
    assert tab("show", "./la") == ["dir,./la"]
    assert tab("show", shop, "sales.or") == ["plain,sales.orders"]


@pytest.mark.parametrize("place", ["/no/such/lake", "ftp://nonsense", "s3://"])
def test_completion_in_an_unreadable_lakehouse_is_empty_and_silent(tab: Tab, place: str) -> None:
    assert tab("show", place, "sal") == []
    assert tab("show", place, "--option", "nonsense", "sal") == []


def test_completing_lists_storage_at_most_once(tab: Tab, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[CountingStore] = []

    def counting(*given: Any) -> CountingStore:
        opened.append(CountingStore(open_store(*given)))
        return opened[-1]

    monkeypatch.setattr("mangrove.cli.context.open_store", counting)
    assert tab("show", shop, "sales.or") == ["plain,sales.orders"]
    (store,) = opened
    assert store.requests.lists <= 1
    assert store.requests.total <= 10
    assert store.requests.bytes_written == 0


COMPLETION_COMMANDS = {
    "bash": 'COMP_WORDS=(mangrove x); COMP_CWORD=1; _mangrove_completion mangrove; printf "%s\\n" "${COMPREPLY[@]}"',
    "fish": 'complete --do-complete "mangrove $TYPED"',
    # What zsh would show is printed instead, from the lists that its script has made.
    "zsh": "words=(mangrove x); CURRENT=2; _mangrove_completion",
}
"""How each shell is asked what it would offer behind some words, once it has read the script."""
BEFORE = {
    "bash": "",
    "fish": "",
    "zsh": "compdef() {}; compadd() { print -l -- $completions }; "
    "_describe() { print -l -- ${completions_with_descriptions%%:*} };",
}


@pytest.mark.parametrize("shell", COMPLETION_COMMANDS)
def test_real_shells_offer_the_completions_also_after_a_comma(
    tab: Tab, run: Any, shop: str, shell: str, tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    told, program, script = tmp_path / "told", tmp_path / "mangrove", tmp_path / "script"
    script.write_text(run("completion", shell).out)
    program.write_text(f"#!/bin/sh\ncat {shlex.quote(str(told))}\n")
    program.chmod(0o755)
    command = f"{BEFORE[shell]} source {shlex.quote(str(script))}; {COMPLETION_COMMANDS[shell]}"
    quiet = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]

    def offered(*words: str) -> list[str]:
        told.write_text("\n".join(tab(*words, shell=shell)) + "\n")
        environment = {**os.environ, "TYPED": words[-1], "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        answer = subprocess.run([shell, quiet, "-c", command], env=environment, capture_output=True, text=True)
        assert answer.stderr == ""
        return sorted(line.partition("\t")[0] for line in answer.stdout.splitlines())

    assert offered("show", shop, "sal") == ["sales", "salt"]
    assert offered("read", shop, "sales.orders", "--columns", "id,c") == ["id,customer"]
    assert offered("sh") == ["shell", "show"]


def test_the_zsh_script_enables_completion_if_necessary(run: Any) -> None:
    assert "compinit; }\n    compdef _mangrove_completion mangrove\n" in run("completion", "zsh").out
