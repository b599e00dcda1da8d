"""The wheel holds the product: no demo, benchmark, test server, simulation or test."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent
WORKSHOP = re.compile(r"(?:^|_)(?:bench\w*|demo\w*|ports|process_race|s3_server|servers|simulat\w*|tests?)(?:_|$)")
TESTING = {
    "__init__",
    "effects",
    "faulty_store",
    "histories",
    "metastore_contract",
    "store_contract",
    "strategies",
    "table_model",
}
"""What users need to test a store or a layout of their own."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[PurePosixPath]:
    """The files of the wheel that this checkout builds."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return [PurePosixPath(name) for name in archive.namelist()]


def test_the_wheel_contains_only_the_packages(files: list[PurePosixPath]) -> None:
    folders = {path.parts[0] for path in files}
    assert {re.sub(r"-.*(?=\.dist-info)", "", folder) for folder in folders} == {
        "mangrove",
        "mangrove_lake.dist-info",
        "narwhals_mangrove",
        "pyspark_mangrove",
    }


def test_the_wheel_has_no_demo_benchmark_test_server_or_simulation(files: list[PurePosixPath]) -> None:
    assert [str(path) for path in files if any(map(WORKSHOP.search, (*path.parts[:-1], path.stem)))] == []


def test_the_testing_package_has_what_users_need_to_test_a_store_or_layout(files: list[PurePosixPath]) -> None:
    assert {path.stem for path in files if path.parts[:2] == ("mangrove", "testing")} == TESTING


@pytest.mark.parametrize(
    "name", ["demo_shop", "bench_command", "benchmarks", "s3_server", "servers", "ports", "simulation", "tests"]
)
def test_a_development_module_is_recognized_by_its_name(name: str) -> None:
    assert WORKSHOP.search(name)
