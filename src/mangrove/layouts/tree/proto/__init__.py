"""The code that `proto/generate.py` makes from `proto/mangrove_tree.proto`."""
