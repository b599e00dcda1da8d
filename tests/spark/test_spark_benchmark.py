"""The benchmark of Spark still measures every case, at sizes so small that the figures mean nothing."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "spark"


@pytest.mark.interop
def test_measurements_at_several_sizes_are_printed_in_one_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark: dict[str, Any] = runpy.run_path(str(BENCHMARK))
    names = ["plan", "append", "scan", "lookup", "upsert", "merged-picked", "merged-two"]
    assert set(names) < set(benchmark["CASES"])
    tiny = f"--rows 200 --upserted 10 --planned 3 --upserts 2 --repetitions 1 --folder {tmp_path}".split()
    for sizes in (["--files", "2", "--only", ",".join(names)], ["--files", "2,11", "--only", "plan,lookup"]):
        benchmark["run"](spark, benchmark["arguments"]([*tiny, *sizes]))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(lines) == (1 + 5 + 2 * 2) + (1 + 2)
    assert all(line.count("|") == 4 and "  |" not in line for line in lines[:-3])
    assert lines[-3] == "| | goal | 200 rows, 2 files | 200 rows, 11 files |"
    assert lines[-2].endswith(" |  |"), "what has no size is measured once"
    assert lines[-1] == "| files that a look-up of one key opens | 2 | 1 | 1 |"
    assert list(tmp_path.iterdir()) == []
