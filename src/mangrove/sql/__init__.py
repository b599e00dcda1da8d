"""SQL statements on a lakehouse; queries run on Spark."""
