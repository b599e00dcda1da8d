"""Protobuf classes generated from mangrove_tree.proto."""
