import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError
from mangrove.model.paths import PATH_BYTES_MAX, check_path, check_prefix
from mangrove.testing.store_contract import REFUSED_PATHS


def accepted(path: str) -> bool:
    try:
        check_path(path)
    except InvalidInputError:
        return False
    return True


@pytest.mark.parametrize("path", REFUSED_PATHS, ids=lambda path: repr(path[:20]))
def test_an_invalid_object_path_is_rejected_with_a_short_message(path: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        check_path(path)
    assert ";" in str(refusal.value)
    assert len(str(refusal.value)) < 250


@given(st.text(st.sampled_from("ab./\0é"), max_size=8))
@example("a/..b/c..")
def test_an_accepted_path_is_normalized(path: str) -> None:
    if accepted(path):
        assert posixpath.normpath(f"/top/{path}") == f"/top/{path}"
    else:
        assert "\0" in path or not path or posixpath.normpath(f"/top/{path}") != f"/top/{path}"


@given(st.text(st.sampled_from("ab./-"), max_size=8), st.integers(0, 8))
def test_every_beginning_of_a_path_is_a_prefix(path: str, length: int) -> None:
    if accepted(path):
        check_prefix(path[:length])


def test_the_path_limits_are_in_bytes() -> None:
    longest = "/".join(["x" * 255] * 4) + "x"
    assert accepted("/".join(["x" * 255] * 4))
    assert len("/".join(["é" * 127] * 4 + ["12345"])) < PATH_BYTES_MAX
    assert accepted("/".join(["é" * 127] * 4 + ["12"]))
    assert not accepted("/".join(["é" * 127] * 4 + ["12345"]))
    assert not accepted(longest)


@pytest.mark.parametrize("prefix", ["/a", "a//", "a/./b", "../", "\0", "a\\b"])
def test_an_impossible_prefix_is_rejected(prefix: str) -> None:
    with pytest.raises(InvalidInputError):
        check_prefix(prefix)
