"""The Python API of a lakehouse with its catalog, tables and transactions."""
