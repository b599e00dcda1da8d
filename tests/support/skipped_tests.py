"""The list of tests that several runs of pytest skipped, and that no later run executed."""

from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["record_skipped_tests"]


def record_skipped_tests(file: Path, reported: Iterable[str], skipped: Mapping[str, str]) -> None:
    """Remove the tests that a run reported from the list, and add those that it skipped, with their reasons."""
    before = file.read_text("utf-8").splitlines() if file.exists() else []
    known = dict(line.split("\t", 1) for line in before)
    remaining = {test: reason for test, reason in known.items() if test not in set(reported)}
    listed = remaining | {test: " ".join(reason.split()) for test, reason in skipped.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{test}\t{reason}\n" for test, reason in sorted(listed.items())), "utf-8")
