"""One Spark session for all tests of a process, on the wheel's Java even where the machine has its own.

Tests of SQL that take `sql_engine` run on Spark and, in the quick suite, on DuckDB. Those that also take `spark` itself
run on Spark only.
"""

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from mangrove.errors import InvalidInputError
from mangrove.spark.session import local_session

SHORT_LIVED = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
}
"""What a Java takes from its environment that lives for some tests only: compiling its code well would take it longer
than running that code, and half of the processor's time. Verifying the classes of Spark would take a tenth."""


@pytest.fixture(scope="package", autouse=True)
def _write_data_files() -> Iterator[None]:
    """Let small writes create data files, which these tests are about; a table property makes rows inline."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mangrove.layouts.tree.snapshot.TreeSnapshot.inline_rows_default", 0)
        yield


@pytest.fixture(scope="session")
def path_without_java(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH on which everything is found but Java."""
    folder = tmp_path_factory.mktemp("bin")
    for place in map(Path, os.get_exec_path()):
        for program in place.iterdir() if place.is_dir() else ():
            link = folder / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program.absolute())
    return str(folder)


class Start(NamedTuple):
    """A session, and the process's environment just before and just after it was started."""

    session: SparkSession
    environment_before: dict[str, str]
    environment_after: dict[str, str]


@pytest.fixture(scope="session")
def start(path_without_java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start a session of two cores where no Java can be found and PYSPARK_PYTHON leads nowhere.

    Tables of Spark's own go to a folder of this process, where neither another's tests nor a run before can be met.
    """
    settings = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAVA_HOME", raising=False)
        patch.setenv("PATH", path_without_java)
        patch.setenv("PYSPARK_PYTHON", "/nowhere/python3")
        for name, value in SHORT_LIVED.items():
            patch.setenv(name, value)
        assert shutil.which("java") is None
        before = dict(os.environ)
        session = local_session(settings)
        after = dict(os.environ)
    yield Start(session, before, after)
    session.stop()


@pytest.fixture(scope="session")
def spark(start: Start) -> SparkSession:
    """The session of this test process."""
    return start.session


@pytest.fixture(scope="module", params=["duckdb", pytest.param("spark", marks=pytest.mark.interop)])
def sql_engine(request: pytest.FixtureRequest) -> str:
    """Name an SQL engine; Spark has its session."""
    name = str(request.param)
    if name == "spark":
        request.getfixturevalue("spark")
    return name


def runs_on_duckdb(item: pytest.Item) -> bool:
    """Return whether a test of both engines runs on DuckDB."""
    return isinstance(item, pytest.Function) and _params(item).get("sql_engine") == "duckdb"


def _params(item: pytest.Function) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else dict(callspec.params)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the tests on DuckDB that take a Spark session."""
    items[:] = [one for one in items if not (runs_on_duckdb(one) and "spark" in getattr(one, "fixturenames", ()))]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Expect DuckDB to refuse what is marked so."""
    if not (runs_on_duckdb(pyfuncitem) and pyfuncitem.get_closest_marker("needs_spark")):
        return (yield)
    with pytest.raises(InvalidInputError, match="needs Spark"):
        yield
    return True
