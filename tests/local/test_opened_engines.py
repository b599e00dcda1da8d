"""A lakehouse that the package opens comes with engines, which are started only when they are needed."""

import subprocess
import sys
from pathlib import Path

import mangrove

SCRIPT = """
import sys, mangrove
lake = mangrove.open(sys.argv[1])
table = lake.table("s.t")
print("pyarrow.parquet" in sys.modules, "pyspark" in sys.modules)
table.append([{"id": 2}])
print("pyarrow.parquet" in sys.modules, "pyspark" in sys.modules)
"""


def test_rows_written_by_one_process_are_read_by_another(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id int")
    table.append([{"id": 1}])
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "lake")], capture_output=True, check=True, text=True
    )
    assert answer.stdout.split() == ["False", "False", "True", "False"]
    assert table.to_pandas()["id"].tolist() == [1, 2]
