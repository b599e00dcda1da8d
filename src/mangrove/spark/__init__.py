"""The Spark engine: everything that knows PySpark and its Java."""
