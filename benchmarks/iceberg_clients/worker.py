"""A process in the environment of a client: it runs Python code that it reads line by line.

The first line is the code that opens the catalog. An answer is the value of the variable
`found` after the code, or an error.
"""

import json
import os
import sys
from typing import Any


def main() -> None:
    # What the client prints, also in processes that it starts, is no answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    variables: dict[str, Any] = {}
    for line in sys.stdin:
        variables["found"] = None
        try:
            exec(json.loads(line), variables)
            answer = {"found": variables["found"]}
        except Exception as error:  # noqa: BLE001  every failure of a client is a result
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
