"""What every test shares: how hypothesis searches, where temporary files are, and which tests stay on one worker."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from mangrove.storage import memory

# The first text strategy on a fresh machine is slow and shared machines stall, so
# time is never what a property proves.
UNTIMED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("local", UNTIMED)
settings.register_profile("ci", UNTIMED, derandomize=True, database=None)
settings.register_profile("thorough", UNTIMED, max_examples=5_000, print_blob=True)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "local")
settings.load_profile(PROFILE)
if PROFILE == "ci":
    # Hypothesis also tries constants of whichever modules of ours are loaded. That depends on which tests ran before
    # in the same process, and would change the examples of every property with each constant in the source.
    providers._get_local_constants = lambda: providers._local_constants


MEMORY = Path("/dev/shm")
"""Where files are kept in memory. A test waits for no disk there, however often a commit calls fsync."""
MEMORY_FREE_MIN = 4 * 2**30
TEMPORARY = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory where there is room for them, unless a folder is given."""
    if "TMPDIR" in os.environ or config.option.basetemp is not None or not MEMORY.is_dir():
        return
    room = os.statvfs(MEMORY)
    if (
        os.access(MEMORY, os.W_OK)
        and not room.f_flag & os.ST_NOEXEC
        and room.f_bavail * room.f_frsize > MEMORY_FREE_MIN
    ):
        config.stash[TEMPORARY] = Path(tempfile.mkdtemp(prefix="mangrove-tests-", dir=MEMORY))
        # Processes that tests start, and those of xdist, find it in the environment.
        os.environ["TMPDIR"] = str(config.stash[TEMPORARY])
        tempfile.tempdir = None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the temporary files that this process keeps in memory; let the garbage collector visit everything."""
    # Libraries print a report about objects that remain at exit.
    gc.unfreeze()
    if (folder := config.stash.get(TEMPORARY, None)) is not None:
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ["TMPDIR"]
        tempfile.tempdir = None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, which would visit all of them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Let the garbage collector visit neither modules nor collected tests, and the objects of a test less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


SPARK_SECOND = "test_sql"
"""The first test file of the second half of the Spark tests: each worker of two has a session, and none waits."""


# First, because xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the interop tests of a folder on one worker, so that its server or Spark session starts once.

    The tests of Spark, which take as long as all others, are two groups. The shortest tests run last, so that no
    worker waits for a long one at the end.
    """
    for item in items:
        if item.get_closest_marker("interop") and not item.get_closest_marker("xdist_group"):
            folder = item.path.parent.name
            half = "-second" if folder == "spark" and item.path.name >= SPARK_SECOND else ""
            item.add_marker(pytest.mark.xdist_group(folder + half))
    items.sort(key=lambda item: "tree-strict" in item.name)


@pytest.fixture(autouse=True)
def _forget_memory_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test find the lakehouses in memory that an earlier test of the same process created."""
    monkeypatch.setattr(memory, "_stores", dict(memory._stores))


def _spark_runs() -> bool:
    spark = sys.modules.get("pyspark")
    return spark is not None and spark.SparkContext._active_spark_context is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Let no test start Spark that does not say so: the quick suite runs where there is no Java."""
    ran_before = _spark_runs()
    yield
    if _spark_runs() and not ran_before and not item.get_closest_marker("interop"):
        pytest.fail("this test starts Spark; mark it as interop and let it take the fixture spark")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Record the skipped tests in the file that MANGROVE_SKIPPED_LIST names, for the end of `.ci/run`."""
    if not (file := os.environ.get("MANGROVE_SKIPPED_LIST")):
        return
    reports = [one for found in terminalreporter.stats.values() for one in found if isinstance(one, pytest.TestReport)]
    skipped = {one.nodeid: str(one.longrepr[2]) for one in reports if one.skipped and isinstance(one.longrepr, tuple)}
    record_skipped_tests(Path(file), (one.nodeid for one in reports), skipped)


def record_skipped_tests(file: Path, reported: Iterable[str], skipped: Mapping[str, str]) -> None:
    """Remove the tests that a run reported from the list, and add those that it skipped, with their reasons."""
    before = file.read_text("utf-8").splitlines() if file.exists() else []
    known = dict(line.split("\t", 1) for line in before)
    remaining = {test: reason for test, reason in known.items() if test not in set(reported)}
    listed = remaining | {test: " ".join(reason.split()) for test, reason in skipped.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{test}\t{reason}\n" for test, reason in sorted(listed.items())), "utf-8")
