"""Selection of a store implementation by URI."""

import os
from collections.abc import Mapping

from mangrove.errors import InvalidInputError
from mangrove.storage.cloud import open_cloud_store
from mangrove.storage.local import LocalStore
from mangrove.storage.memory import open_memory_store
from mangrove.storage.port import Store
from mangrove.storage.uri import RootUri, expand_location, parse_root_uri

__all__ = ["is_same_storage", "open_store"]


def open_store(location: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Store:
    """Return the store at a URI or a local folder; nothing is read, written or sent yet.

    `options` are for clouds only: see `mangrove.storage.cloud_client`.
    """
    if options is not None and (
        not isinstance(options, Mapping)
        or not all(isinstance(text, str) for entry in options.items() for text in entry)
    ):
        # The message does not contain them: there may be secrets among them.
        raise InvalidInputError("the options of a store must be a mapping from strings to strings")
    root = _root(location)
    if root.scheme in {"file", "memory"}:
        if options:
            raise InvalidInputError(f"{root.text} takes no options, but got {', '.join(sorted(options))}; remove them")
        return LocalStore(root) if root.scheme == "file" else open_memory_store(root.text)
    return open_cloud_store(root, options or {})


def is_same_storage(location: str | os.PathLike[str], uri: str) -> bool:
    """Return whether two locations use the same kind of storage, so that the same options apply."""
    return _root(location).scheme == parse_root_uri(uri).scheme


def _root(location: str | os.PathLike[str]) -> RootUri:
    if isinstance(location, str | os.PathLike):
        text = os.fspath(location)
        location = expand_location(text, os.getcwd()) if isinstance(text, str) else location
    return parse_root_uri(location)
