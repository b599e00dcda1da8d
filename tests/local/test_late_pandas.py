"""What is imported: pandas takes a second, and Arrow loads it with the first value that is made."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["mangrove.local.engine", "mangrove.iceberg.publish.metadata_writer", "mangrove.rest.routes"]
)
def test_importing_the_local_engine_does_not_import_pandas(module: str) -> None:
    program = f"import sys, {module}; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
