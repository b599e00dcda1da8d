"""The exclusive create that commits a version, after responses that were lost."""

from mangrove.errors import StorageError
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
