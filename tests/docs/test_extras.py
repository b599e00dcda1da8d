"""Each extra is enough for what the documentation says it is for, and an error names the extra that is missing."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.docs.clean_environments import ROOT, make_environment
from tests.docs.test_pages import environment

SHOP = """
import mangrove
lake = mangrove.create("./lake")
lake.create_namespace("shop")
orders = lake.create_table("shop.orders", "id bigint not null", keys=["id"])
orders.append([{"id": 1}])
"""


def run_python(extra: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code where the package is installed with these extras alone."""
    python = make_environment([f"mangrove-lake[{extra}]" if extra else "mangrove-lake"])
    return subprocess.run(
        [python, "-I", "-c", code],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_command(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the bare package, on a terminal, since the shell needs one."""
    program = make_environment(["mangrove-lake"]).with_name("mangrove")
    code = f"import pty, sys; sys.exit(pty.spawn({[str(program), *command]!r}) >> 8)"
    return run_python("", code, folder)


def test_the_start_page_lists_every_extra() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`[a-z`, ]+`) \|", (ROOT / "docs" / "index.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(re.findall("[a-z]+", " ".join(rows))) == sorted(extras)


@pytest.mark.interop
@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("spark,connect", "from pyspark.sql.connect.session import SparkSession"),
        ("spark,shell", "from mangrove.cli import shell"),
        ("iceberg", f"{SHOP}assert orders.iceberg().endswith('.metadata.json')"),
        ("testing", "from mangrove.testing import store_contract"),
    ],
    ids=lambda given: given if "import" not in given else "",
)
def test_an_extra_is_sufficient_for_features_without_an_executed_page(extra: str, code: str, tmp_path: Path) -> None:
    done = run_python(extra, code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.interop
def test_the_error_in_python_names_the_missing_extra(tmp_path: Path) -> None:
    calls = {
        "orders.to_duckdb()": "duckdb",
        "orders.to_polars()": "polars",
        "orders.iceberg()": "iceberg",
        "orders.to_spark()": "spark",
        "orders.compact(engine='spark')": "spark",
        "lake.spark()": "spark",
        "lake.spark(jars=True)": "spark",
        "lake.sql('select 1')": "duckdb",
        "lake.sql('select 1', engine='spark')": "spark",
        "lake.sql('select 1', engine='duckdb')": "duckdb",
        "mangrove.load_ipython_extension(None)": "duckdb",
    }
    code = f"""{SHOP}
for call in {list(calls)!r}:
    try:
        eval(call)
    except mangrove.InvalidInputError as error:
        print(error)
"""
    done = run_python("", code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"pip install 'mangrove-lake\[([a-z]+)\]'", done.stdout) == list(calls.values())


@pytest.mark.interop
def test_the_error_of_a_command_names_the_missing_extra(tmp_path: Path) -> None:
    assert run_python("", SHOP, tmp_path).returncode == 0
    commands = {
        "serve ./lake": "server",
        "iceberg ./lake shop.orders": "iceberg",
        "sql ./lake select": "duckdb",
        "sql ./lake select --engine spark": "spark",
        "compact ./lake shop.orders --engine spark": "spark",
        "shell ./lake": "shell",
    }
    for command, extra in commands.items():
        done = run_command(command.split(), tmp_path)
        assert done.returncode == 2, command
        said = " ".join(done.stdout.split())
        assert f"pip install 'mangrove-lake[{extra}]'" in said, f"{command}: {said}"
