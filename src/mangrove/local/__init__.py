"""Arrow engine, which reads and writes tables in this process."""
