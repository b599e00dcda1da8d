"""Selection of a store implementation by URI."""

import os
from collections.abc import Mapping

from mangrove.errors import InvalidInputError
from mangrove.storage.local import LocalStore
from mangrove.storage.memory import open_memory_store
from mangrove.storage.port import Store
from mangrove.storage.uri import RootUri, expand_location, parse_root_uri

__all__ = ["is_same_storage", "open_store"]


def open_store(location: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Store:
    """Return the store at a URI or a folder as seen from here; nothing is read, written or sent yet.

    `options` are for clouds only: see `mangrove.storage.cloud_client`.
    """
    if options is not None and (
        not isinstance(options, Mapping)
        or not all(isinstance(text, str) for entry in options.items() for text in entry)
    ):
        # What they are is not said: there may be secrets among them.
        raise InvalidInputError("the options of a store are no mapping from text to text: give one")
    root = _root(location)
    if root.scheme in {"file", "memory"}:
        if options:
            raise InvalidInputError(
                f"{root.text} takes no options, but got {', '.join(sorted(options))}; leave them out"
            )
        return LocalStore(root) if root.scheme == "file" else open_memory_store(root.text)
    # obstore takes a noticeable part of a command's start-up, and a local lakehouse never needs it.
    from mangrove.storage.cloud import open_cloud_store  # noqa: PLC0415

    return open_cloud_store(root, options or {})


def is_same_storage(location: str | os.PathLike[str], uri: str) -> bool:
    """Return whether a place lies in the same kind of storage as another, so that the same options open it."""
    return _root(location).scheme == parse_root_uri(uri).scheme


def _root(location: str | os.PathLike[str]) -> RootUri:
    if isinstance(location, str | os.PathLike):
        text = os.fspath(location)
        location = expand_location(text, os.getcwd()) if isinstance(text, str) else location
    return parse_root_uri(location)
