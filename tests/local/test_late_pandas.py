"""What is imported: pandas takes a second, and Arrow loads it with the first value that is made."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["mangrove.local.engine", "mangrove.iceberg.publish.metadata_writer", "mangrove.rest.routes"]
)
def test_importing_what_reads_and_writes_rows_loads_no_pandas(module: str) -> None:
    program = f"import sys, {module}; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
