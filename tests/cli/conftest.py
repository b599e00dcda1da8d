"""What the tests of the command line share: a run of the real command in this process, and a lakehouse to run it on."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mangrove.cli.main import main

SCHEMA = "id bigint not null, customer string comment 'who', amount decimal(10,2), ts timestamp"


@dataclass(frozen=True)
class Ran:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it answered, as a program reads it."""
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `mangrove` with these words."""
    monkeypatch.delenv("MANGROVE_LAKE", raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def ran(*words: str) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, printed.out, printed.err)

    return ran


@pytest.fixture
def lake(tmp_path: Path, run: Run) -> str:
    """Make a lakehouse of four versions: empty, a namespace, a table, a view."""
    place = str(tmp_path / "lake")
    for words in (
        ("init", place),
        ("create", place, "sales", "--property", "owner=ana"),
        ("create", place, "sales.orders", "--schema", SCHEMA, "--key", "id", "--partition-by", "days(ts)"),
        ("create", place, "sales.daily", "--view", "select count(*) from sales.orders"),
    ):
        done = run(*words)
        assert done.code == 0, done.err
    return place
