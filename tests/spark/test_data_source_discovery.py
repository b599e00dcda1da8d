"""Spark finds the format by itself where this package is installed, in programs that call nothing of ours."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.spark.conftest import SHORT_LIVED

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.spark.data_source import MangroveSource
from mangrove.spark.java import find_java_home


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.xdist_group("spark-processes")
def test_a_program_that_knows_only_spark_reads_writes_and_streams_a_table(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, name string")
    lake.create_table("s.copied", "id bigint, name string")
    script = Path(__file__).parent / "plain_process.py"
    environment = (
        os.environ | SHORT_LIVED | {"JAVA_HOME": str(find_java_home(os.environ)), "PYSPARK_PYTHON": sys.executable}
    )
    done = subprocess.run(
        [sys.executable, str(script), lake.uri, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["read [0, 1, 2]", "selected 10", "streamed 4", "imported []"]
    assert table.to_arrow().num_rows == 4


def test_the_module_that_spark_looks_for_has_the_source() -> None:
    import pyspark_mangrove

    assert pyspark_mangrove.DefaultSource is MangroveSource
    assert pyspark_mangrove.DefaultSource.name() == "mangrove"


def test_the_wheel_contains_every_package() -> None:
    root = Path(__file__).parents[2]
    built = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert sorted(built["packages"]) == sorted(f"src/{path.parent.name}" for path in root.glob("src/*/__init__.py"))


def test_an_error_outside_of_sparks_processes_leaves_no_trace() -> None:
    with pytest.raises(InvalidInputError, match='the option "lake" is missing'):
        MangroveSource({}).schema()
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
