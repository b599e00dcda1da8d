"""A B-epsilon tree implemented as pure functions on immutable nodes."""
