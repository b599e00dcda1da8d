"""A transaction in the making: its files with the numbers that they get, and what the index will say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mangrove.betree.node import Message
from mangrove.errors import InvalidInputError
from mangrove.layouts.deltacat.bodies import Body
from mangrove.layouts.deltacat.guard import Written
from mangrove.layouts.deltacat.index import Mapped, Stored, read_mapped
from mangrove.layouts.deltacat.keys import deleted_key, mapping_key
from mangrove.layouts.deltacat.log import Operation
from mangrove.layouts.deltacat.packed import Packed, checksum_of, pack
from mangrove.layouts.deltacat.paths import OURS, NumberedFile
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.model.locators import Locator
from mangrove.model.objects import Object

__all__ = ["CREATE", "DELETE", "UPDATE", "Draft", "Staged", "said_of"]

CREATE: Final = "create"
UPDATE: Final = "update"
DELETE: Final = "delete"


@dataclass(frozen=True, slots=True)
class Staged:
    """What a transaction writes if it follows one certain version."""

    files: Mapping[str, bytes]
    bodies: Mapping[str, Body]
    messages: Sequence[Message]
    operations: Sequence[Operation]
    written: Sequence[Written]


@dataclass
class Draft:
    """Takes what a transaction does, and counts on from what the version before it has."""

    base: CatalogSnapshot
    transaction: str
    _files: dict[str, bytes] = field(default_factory=dict)
    _bodies: dict[str, Body] = field(default_factory=dict)
    _values: dict[str, str | None] = field(default_factory=dict)
    _operations: list[Operation] = field(default_factory=list)
    _written: list[Written] = field(default_factory=list)

    def staged(self) -> Staged:
        """Return all that was drafted."""
        messages = [Message(key, value, self.transaction) for key, value in self._values.items()]
        return Staged(self._files, self._bodies, messages, self._operations, self._written)

    def value_of(self, key: str) -> str | None:
        """Return what the index will say under a key."""
        return self._values[key] if key in self._values else self.base.value_of(key)

    def set(self, key: str, value: str | None) -> None:
        """Let the index say something under a key; nothing where the value is None."""
        self._values[key] = value

    def touch(self, locator: Locator, key: str) -> None:
        """Note that the transaction wrote an object, for those who lose the race against it."""
        self._written.append(Written(key, said_of(locator)))

    def touch_key(self, written: Written) -> None:
        """Note that the transaction wrote what has no locator."""
        self._written.append(written)

    def put(self, folder: str, current: Stored | None, value: Object | None, fields: Packed) -> Stored:
        """Write the next revision of the object in `folder`; a value of None deletes it."""
        gone = None if current is not None else self.value_of(deleted_key(folder))
        number = current.number if current is not None else int(gone or 0)
        operation = DELETE if value is None else CREATE if current is None else UPDATE
        data = pack(fields)
        stored = Stored(number + 1, operation, self.transaction, checksum=checksum_of(data))
        if value is None:
            self.set(deleted_key(folder), str(stored.number))
        elif gone is not None:
            self.set(deleted_key(folder), None)
        path = self.path_of(stored.file(folder))
        self._files[path] = data
        if value is not None:
            self._bodies[path] = Body(value, fields)
        return stored

    def note(self, folder: str, stored: Stored, fields: Packed, mapping_paths: Sequence[str] = ()) -> None:
        """Enter a revision into the transaction's log, unless DeltaCAT does not know its kind."""
        if not folder.startswith(OURS):
            object_id = folder.rpartition("/")[2]
            revision_path = self.path_of(stored.file(folder))
            self._operations.append(Operation(stored.operation, object_id, fields, [revision_path], mapping_paths))

    def note_mapping(self, target: str, paths: Sequence[str]) -> None:
        """Enter mappings into the transaction's log that no revision comes with."""
        if paths:
            self._operations.append(Operation(UPDATE, target, {}, [], paths))

    def map(self, folder: str, target: str) -> list[str]:
        """Let a mapping folder lead to an id, and return the paths of the files for that."""
        before = self._mapped(folder)
        if not folder or before.target == target:
            return []
        if "." in target:
            raise InvalidInputError(f"the id {target!r} holds a dot, after which DeltaCAT would look for the id alone")
        return self._map(folder, before, self.base.files.revision.remapping if before.target else CREATE, target)

    def unmap(self, folder: str, target: str) -> list[str]:
        """Let a mapping folder lead nowhere if it leads to that id, and return the paths of the files for that."""
        before = self._mapped(folder)
        return self._map(folder, before, DELETE, target) if folder and before.target == target else []

    def path_of(self, file: NumberedFile) -> str:
        """Return where a numbered file lies in this format revision."""
        return self.base.files.revision.numbered_path(file.folder, file.number, file.file_name)

    def mapped_to(self, folder: str) -> str:
        """Return the id that a mapping folder leads to, or nothing."""
        return self._mapped(folder).target

    def _mapped(self, folder: str) -> Mapped:
        return read_mapped(self.value_of(mapping_key(folder)))

    def _map(self, folder: str, before: Mapped, operation: str, target: str) -> list[str]:
        file = NumberedFile(folder, before.number + 1, operation, self.transaction, target)
        path = self.path_of(file)
        self._files[path] = b""
        self.set(mapping_key(folder), Mapped(file.number, "" if operation == DELETE else target).text)
        return [path]


def said_of(locator: Locator) -> str:
    """Return what people call the object."""
    return f"{locator.kind.word} {locator}"
