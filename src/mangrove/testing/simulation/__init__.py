"""A deterministic simulation: writers, crashes, lost answers, stale hints and wrong clocks, all decided by a seed."""
