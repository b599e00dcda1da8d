"""A DuckDB with its extension for Iceberg, in a process of its own: it reads SQL line by line, and writes answers.

python iceberg_duckdb.py
"""

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import duckdb


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(config={"extension_directory": folder}) as connection:
        for name in ("avro", "httpfs", "iceberg"):
            package = find_spec(f"duckdb_extension_{name}")
            assert package is not None
            assert package.origin is not None
            (path,) = Path(package.origin).parent.rglob("*.duckdb_extension")
            connection.execute(f"INSTALL '{path}'; LOAD {name}")
        for line in sys.stdin:
            answer: dict[str, object]
            try:
                rows = connection.execute(json.loads(line)).fetchall()
                answer = {"rows": [[str(value) for value in row] for row in rows]}
            except duckdb.Error as error:
                answer = {"error": str(error)}
            sys.stdout.write(f"{json.dumps(answer)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
