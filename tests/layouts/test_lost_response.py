"""The exclusive create that commits a version, after responses that were lost."""

import pytest

from mangrove.errors import ConflictError, StorageError
from mangrove.layouts.lost_response import create_and_verify


class DelayedCreate:
    """A create whose first request fails and takes effect only when the file was read back."""

    def __init__(self) -> None:
        self.requests = 0
        self.is_there = False

    def create(self) -> bool:
        self.requests += 1
        if self.requests == 1:
            raise StorageError("the response was lost")
        return False

    def is_own(self) -> bool | None:
        was_there, self.is_there = self.is_there, True
        return True if was_there else None


def test_a_delayed_create_that_refuses_its_own_repetition_has_committed() -> None:
    delayed = DelayedCreate()
    assert create_and_verify(delayed.create, delayed.is_own, 7, "root")


def test_a_create_that_is_refused_at_once_is_not_read_back() -> None:
    def read_back() -> bool:
        raise AssertionError("one request is enough")

    assert not create_and_verify(lambda: False, read_back, 7, "root")


def test_a_deadline_before_the_first_request_is_a_conflict() -> None:
    def create() -> bool:
        raise ConflictError("exceeded its commit deadline")

    with pytest.raises(ConflictError, match="exceeded its commit deadline"):
        create_and_verify(create, lambda: None, 7, "root")


def test_a_deadline_after_a_lost_response_leaves_the_outcome_unknown() -> None:
    answers: list[Exception] = [StorageError("the response was lost"), ConflictError("Nothing was committed")]

    def create() -> bool:
        raise answers.pop(0)

    with pytest.raises(StorageError, match=r"the response was lost.*The store may still create it"):
        create_and_verify(create, lambda: None, 7, "root")
    assert not answers
