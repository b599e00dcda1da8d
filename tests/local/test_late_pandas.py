"""What is imported: pandas takes a second, and Arrow loads it with the first value that is made."""

import subprocess
import sys
from pathlib import Path

import pytest

import mangrove


@pytest.mark.parametrize(
    "module", ["mangrove.local.engine", "mangrove.iceberg.publish.metadata_writer", "mangrove.rest.routes"]
)
def test_importing_the_local_engine_does_not_import_pandas(module: str) -> None:
    program = f"import sys, {module}; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_scan_does_not_import_pandas(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id bigint not null", keys=["id"]).append([{"id": 1}])
    program = (
        "import sys, mangrove; mangrove.open(sys.argv[1])['shop.orders'].to_arrow(); sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, lake.uri], check=False).returncode == 0
