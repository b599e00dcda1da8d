"""Runs the pipeline of `examples/streaming_ingest.py` and kills its own process right after the first commit."""

import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from mangrove.spark.session import local_session

EXAMPLE = Path(__file__).parents[3] / "examples" / "streaming_ingest.py"


def main(folder: Path) -> None:
    """Do what the example does, up to the commit of the first batch."""
    example: dict[str, Any] = runpy.run_path(str(EXAMPLE))
    lake = example["prepared"](folder / "lake")
    example["deliver"](folder / "inbox")

    def load_and_die(batch: DataFrame, batch_id: int) -> None:
        example["load"](lake, batch, batch_id)
        os.kill(os.getpid(), signal.SIGKILL)

    writer = example["orders_in"](local_session(), folder / "inbox").writeStream.foreachBatch(load_and_die)
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
