"""Telling what a cloud's error means for the caller.

obstore hands most of a server's answer on as text only, so this is the one
place that reads it.
"""

import re

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from mangrove.errors import StorageError

__all__ = ["CLOUD_ERRORS", "explained", "is_final", "is_truncated", "names_no_bucket"]

CLOUD_ERRORS = (BaseError, OSError, ValueError)
"""What obstore raises; a missing object is Python's `FileNotFoundError`."""

_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_URL_WITH_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
_XML = re.compile(r"[\s:]*(?:<\?xml|<Error>).*")
_TRUNCATED = re.compile(r"Error (?:performing|getting) .*HTTP error: request or response body error")
_RETRIES_EXHAUSTED = re.compile(r"after ([0-9]+) retries, max_retries: \1\b")
_REFUSED = re.compile(r"status code: 40[13]\b")


def names_no_bucket(error: BaseException) -> bool:
    """Whether it is the bucket that is missing, and not an object in it."""
    return any(mark in str(error) for mark in _NO_BUCKET)


def is_final(error: BaseException) -> bool:
    """Whether the server understood and refused, so that asking again is no use and nothing was done."""
    return _is_refused(error) or names_no_bucket(error)


def is_truncated(error: BaseException) -> bool:
    """Whether the connection broke in the body of an answer that the client does not request again by itself.

    The client retries 5xx answers and resumes the body of an object. It does not
    retry a 4xx answer, a page of a listing or the answer to a bulk delete whose body
    is incomplete: then it is not known what the server answered.
    """
    line = str(error).partition("\n")[0]
    return _TRUNCATED.search(line) is not None and _RETRIES_EXHAUSTED.search(line) is None


def explained(error: BaseException, done: str, path: str, uri: str, outcome: str = "") -> StorageError:
    """Return the error to raise: what could not be `done`, where, why and what to do next."""
    # What follows the question mark may be a signature; of a page of XML the cause below is what matters.
    sentence = _XML.sub("", _URL_WITH_QUERY.sub(r"\1", str(error).partition("\n")[0]))
    answer = "" if names_no_bucket(error) else f" ({sentence})"
    return StorageError(f"{path!r} in {uri} could not be {done}: {_cause_and_remedy(error)}{outcome}{answer}")


def _is_refused(error: BaseException) -> bool:
    # Listings report a refusal as a generic error.
    return isinstance(error, PermissionDeniedError | UnauthenticatedError) or _REFUSED.search(str(error)) is not None


def _cause_and_remedy(error: BaseException) -> str:
    text = str(error)
    if names_no_bucket(error):
        return "there is no such bucket or container; make it first, or correct the name."
    if "169.254.169.254" in text or "metadata.google.internal" in text:
        return "no credentials were found; give them as options, in the environment or in a profile."
    if _is_refused(error):
        return "the server refused these credentials; check the key, its rights and the region."
    if "SlowDown" in text or " 429 " in text or " 503 " in text:
        return "the server asks to slow down, and repeated attempts did not help; try again later."
    if "error sending request" in text:
        return "no answer came from the server; check the endpoint and the network, then try again."
    return "the server or its client failed; see its answer, then try again."
