"""A Mangrove in a process of its own: it reads SQL line by line, runs it on DuckDB, and writes answers.

    python mangrove_sql.py URI OPTIONS

OPTIONS are the storage options as JSON.
"""

import json
import sys

import mangrove


def main(uri: str, options: str) -> None:
    lake = mangrove.open(uri, storage_options=json.loads(options))
    for line in sys.stdin:
        answer: dict[str, object]
        try:
            lake.sql(json.loads(line))
            answer = {"rows": []}
        except mangrove.MangroveError as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
