"""The B-epsilon tree as pure functions on immutable nodes."""
