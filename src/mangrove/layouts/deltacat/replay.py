"""Following a transaction of another program: from the names of the files that it wrote to what the index says."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mangrove.betree.node import Message
from mangrove.betree.search import scan
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.draft import DELETE
from mangrove.layouts.deltacat.files import CatalogFiles, Wanted
from mangrove.layouts.deltacat.guard import Written
from mangrove.layouts.deltacat.index import Mapped, Named, Stored, read_mapped, read_named, read_stored
from mangrove.layouts.deltacat.keys import (
    below_of,
    deleted_key,
    folder_of,
    key_of_below,
    key_parts,
    locator_of_below,
    mapping_key,
    name_key,
    object_key,
    range_of_kind,
)
from mangrove.layouts.deltacat.paths import NumberedFile
from mangrove.layouts.deltacat.revision import digest_of
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.model.locators import Kind
from mangrove.model.objects import Namespace, Table

__all__ = ["Replayed", "hold_names", "replay"]

_DEPTHS: Final = {
    1: Kind.NAMESPACE,
    2: Kind.TABLE,
    3: Kind.TABLE_VERSION,
    4: Kind.STREAM,
    5: Kind.PARTITION,
    6: Kind.DELTA,
}
_NAMED: Final = (Kind.NAMESPACE, Kind.TABLE)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a transaction changes in the index, and which of its files come too late to change anything."""

    messages: Sequence[Message]
    written: Sequence[Written]
    overruled: Sequence[NumberedFile]


def replay(base: CatalogSnapshot, files: Iterable[NumberedFile], *, last_wins: bool) -> Replayed:
    """Return what a transaction that wrote these files changes after `base`.

    Two programs may have given one number twice. Where both were the other
    program's, the one that ended last counts; over one of ours none does.
    """
    newest: dict[str, NumberedFile] = {}
    for file in sorted(files, key=lambda one: one.number):
        newest[file.folder] = file
    values: dict[str, str | None] = {}
    overruled: list[NumberedFile] = []
    transaction = ""
    # A namespace comes before its tables, whose mapping folders may hold its name.
    for file in sorted(newest.values(), key=lambda one: one.folder.count("/")):
        transaction = file.transaction
        there = _number(base, file)
        if file.number > there or (last_wins and file.number == there):
            values |= dict(_values(base, file, values))
        else:
            overruled.append(file)
    messages = [Message(key, value, transaction) for key, value in values.items()]
    return Replayed(messages, [Written(key, key.replace("\t", " ")) for key in values], overruled)


def hold_names(files: CatalogFiles, numbered: Iterable[NumberedFile]) -> None:
    """Read the bodies that give names, all at once, so that replaying finds them; those of deletes are never read."""
    files.bodies([wanted for file in numbered if (wanted := _naming(file)) is not None])


def _naming(file: NumberedFile) -> Wanted | None:
    """Return the body in which a name is, if the file is one that gives a name."""
    folder = file.object_folder
    if folder is None or file.operation == DELETE or (kind := _kind(file)) not in _NAMED:
        return None
    return Wanted(kind, folder, Stored(file.number, file.operation, file.transaction))


def _kind(file: NumberedFile) -> Kind:
    folder = file.object_folder
    kind = None if folder is None else _DEPTHS.get(folder.count("/") + 1)
    if kind is None:
        raise FormatError(f"{file.folder}/{file.file_name} lies deeper than any object: run `mangrove check`")
    return kind


def _current(base: CatalogSnapshot, file: NumberedFile, folder: str) -> Stored | None:
    kind = _kind(file)
    return base.stored_at(object_key(folder) if kind in _NAMED else key_of_below(below_of(kind, folder.split("/"))))


def _number(base: CatalogSnapshot, file: NumberedFile) -> int:
    """Return the number of the newest file that counts in the same folder."""
    folder = file.object_folder
    if folder is None:
        return read_mapped(base.value_of(mapping_key(file.folder))).number
    current = _current(base, file, folder)
    return current.number if current is not None else int(base.value_of(deleted_key(folder)) or 0)


def _values(
    base: CatalogSnapshot, file: NumberedFile, values: dict[str, str | None]
) -> Iterator[tuple[str, str | None]]:
    folder = file.object_folder
    if folder is None:
        yield mapping_key(file.folder), Mapped(file.number, "" if file.operation == DELETE else file.target).text
        return
    kind = _kind(file)
    is_gone = file.operation == DELETE
    current = _current(base, file, folder)
    stored = Stored(file.number, file.operation, file.transaction)
    if kind in _NAMED:
        names = 1 if current is None else current.names
        named = dict(_name_values(base, file, folder, kind, values))
        yield from named.items()
        name = next((key for key, value in named.items() if value is not None), "")
        yield object_key(folder), None if is_gone else replace(stored, names=names, name=name).text
    else:
        # Another program adds to what was dropped meanwhile, and says that it did so; nothing leads there.
        is_gone = is_gone or _was_deleted(base, folder.rpartition("/")[0], values)
        yield key_of_below(below_of(kind, folder.split("/"))), None if is_gone else stored.text
    yield deleted_key(folder), str(file.number) if is_gone else None
    if is_gone:
        yield from _gone_below(base, folder)


def _was_deleted(base: CatalogSnapshot, folder: str, values: dict[str, str | None]) -> bool:
    """Return whether the object in a folder is gone after what the transaction did so far."""
    key = deleted_key(folder)
    return (values[key] if key in values else base.value_of(key)) is not None


def _gone_below(base: CatalogSnapshot, folder: str) -> Iterator[tuple[str, str | None]]:
    """Yield what goes with an object: another program deletes a stream and leaves what lies below it.

    Nothing leads there any more. The numbers stay known, so that nobody gives one twice.
    """
    parts = folder.split("/")
    for kind in (kind for kind in _DEPTHS.values() if kind not in _NAMED):
        first, end = range_of_kind(kind, *key_parts(parts))
        for key, value in scan(base.guard.root, first, end, base.read_nodes):
            yield key, None
            yield deleted_key(folder_of(locator_of_below(key))), str(read_stored(value).number)


def _name_values(
    base: CatalogSnapshot, file: NumberedFile, folder: str, kind: Kind, values: dict[str, str | None]
) -> Iterator[tuple[str, str | None]]:
    parent = folder.rpartition("/")[0]
    current = base.stored_at(object_key(folder))
    before = None if current is None else _name(base, Wanted(kind, folder, current))
    wanted = _naming(file)
    after = None if wanted is None else _name(base, wanted)
    if before is not None and before != after:
        key = name_key(kind, parent, before)
        led_to = base.value_of(key)
        if key not in values and led_to is not None and read_named(led_to).folder == folder:
            yield key, None
    if after is not None:
        mapping_folder = _mapping_folder(base, kind, parent, after, values)
        yield name_key(kind, parent, after), Named(folder, mapping_folder).text


def _name(base: CatalogSnapshot, wanted: Wanted) -> str:
    (body,) = base.files.bodies([wanted])
    assert isinstance(body.value, Namespace | Table)
    return body.value.name


def _mapping_folder(base: CatalogSnapshot, kind: Kind, parent: str, name: str, values: dict[str, str | None]) -> str:
    canonical = base.files.revision.canonical
    if kind is Kind.NAMESPACE:
        return digest_of(canonical("", name))
    return f"{parent}/{digest_of(canonical(_namespace_name(base, parent, values), name))}"


def _namespace_name(base: CatalogSnapshot, folder: str, values: dict[str, str | None]) -> str:
    """Return what the namespace is called after this transaction, which may be the one that creates it."""
    for key, value in values.items():
        if (
            value is not None
            and key.startswith(name_key(Kind.NAMESPACE, "", ""))
            and read_named(value).folder == folder
        ):
            return key.rpartition("\t")[2]
    current = base.stored_at(object_key(folder))
    return "" if current is None else _name(base, Wanted(Kind.NAMESPACE, folder, current))
