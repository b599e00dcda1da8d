"""The tree layout with Arrow node files and protobuf definitions."""
