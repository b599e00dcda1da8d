"""The command line: every command, what it asks of the lakehouse, and how the answer looks."""
