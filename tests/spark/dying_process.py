"""Runs a stream that is killed, with Spark, just after a batch was committed and before Spark notes that it was."""

import os
import signal
import sys

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from mangrove.spark.data_source import MangroveSource
from mangrove.spark.data_source_writer import StreamTableWriter
from mangrove.spark.session import local_session

GROUP = "MANGROVE_TEST_GROUP"


class DyingWriter(StreamTableWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        if batchId == 1:
            os.killpg(int(os.environ[GROUP]), signal.SIGKILL)


class DyingSource(MangroveSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DyingWriter:  # noqa: N802
        return DyingWriter(self._parsed(), schema, overwrite=overwrite)


def main(lake: str, checkpoint: str) -> None:
    # Spark's Java and its Python workers inherit it; the workers have a group of their own.
    os.environ[GROUP] = str(os.getpgid(0))
    spark = local_session({"spark.master": "local[2]"})
    spark.dataSource.register(DyingSource)
    rows = spark.readStream.format("mangrove").options(lake=lake, maxFilesPerTrigger=1).load("s.t")
    writer = rows.writeStream.format("dying").options(lake=lake, checkpointLocation=checkpoint)
    writer.trigger(availableNow=True).start("s.copied").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
