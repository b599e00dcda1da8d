"""Reading of the files that are added to a table without a schema."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.names import check_text
from mangrove.tables.schemaless_files import NewFile

__all__ = ["read_new_files"]


def read_new_files(
    files: Iterable[str | os.PathLike[str]] | Mapping[str, bytes], content_type: str | None
) -> list[NewFile]:
    """Return the names and bytes of files given as paths, or as names with bytes."""
    if content_type is not None:
        check_text(content_type, "a content type")
    if isinstance(files, str | bytes | os.PathLike) or not isinstance(files, Iterable):
        raise InvalidInputError(f"the files are {files!r}: give a list of paths, or a dict of names and bytes")
    if isinstance(files, Mapping):
        for name, data in files.items():
            if not name:
                raise InvalidInputError("a file has an empty name: give the files names")
            if not isinstance(name, str) or not isinstance(data, bytes):
                raise InvalidInputError(f"the file {name!r} is a {type(data).__name__}: give names as text with bytes")
        found = [NewFile(name, data, content_type) for name, data in files.items()]
    else:
        found = [NewFile(Path(path).name, _read(Path(path)), content_type) for path in files]
    if not found:
        raise InvalidInputError("there are no files to add: give at least one")
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read ({error.strerror}); check the path") from error
