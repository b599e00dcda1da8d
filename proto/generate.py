"""Write the Python code of the protobuf definitions; run it after a change of `mangrove_tree.proto`."""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
GENERATED = HERE.parent / "src/mangrove/layouts/tree/proto"


def generate(target: Path) -> None:
    """Write `mangrove_tree_pb2.py` and its types into `target`."""
    plugin = shutil.which("protoc-gen-mypy", path=str(Path(sys.executable).parent)) or "protoc-gen-mypy"
    subprocess.run(  # noqa: S603 - the compiler that our own requirements name, with fixed arguments
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"--proto_path={HERE}",
            f"--plugin=protoc-gen-mypy={plugin}",
            f"--python_out={target}",
            f"--mypy_out=quiet:{target}",
            "mangrove_tree.proto",
        ],
        check=True,
    )


if __name__ == "__main__":
    generate(GENERATED)
