"""What Spark itself looks for: it imports modules called `pyspark_…` and makes the `DefaultSource` of each known.

So a session that has never heard of Mangrove reads and writes `format("mangrove")`
where this is installed: next to the driver, or on the server of Spark Connect.
"""

from mangrove.spark.data_source import MangroveSource as DefaultSource

__all__ = ["DefaultSource"]
