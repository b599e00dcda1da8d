"""A first walk through a lakehouse: the guided tour that `mangrove demo` gives.

    make demo        or        python examples/first_steps.py [FOLDER]

A small shop on local disk: four tables that change in one commit, a crash, a
conflict, time travel, a rollback, an export and upkeep, in about two minutes. What
the shop does is in `src/mangrove/cli/demo_shop.py`, and the chapters are beside it
in `demo_changing.py` and `demo_looking.py`.
"""

import sys

from mangrove.cli.main import main

if __name__ == "__main__":
    main(["demo", *(sys.argv[1:] or [".build/demo", "--replace"])])
