"""Staging what has a name: first where each name leads now, then the objects that are led to or no longer are."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from mangrove.errors import NotFoundError
from mangrove.layouts.deltacat.bodies import named_fields
from mangrove.layouts.deltacat.draft import Draft, said_of
from mangrove.layouts.deltacat.files import Wanted
from mangrove.layouts.deltacat.index import Named, Stored, read_named
from mangrove.layouts.deltacat.keys import name_key, object_key
from mangrove.layouts.deltacat.packed import Packed
from mangrove.layouts.deltacat.paths import shared_transaction_folder, view_folder
from mangrove.layouts.deltacat.revision import digest_of
from mangrove.metastore import Changes
from mangrove.model.locators import (
    Kind,
    NamespaceLocator,
    SharedTransactionLocator,
    TableLocator,
    ViewLocator,
)
from mangrove.model.objects import Namespace, Object, SharedTransaction, Table, View

__all__ = ["NAMED", "stage_names"]

_Locator: TypeAlias = NamespaceLocator | TableLocator | ViewLocator | SharedTransactionLocator
NAMED: Final = frozenset({Kind.NAMESPACE, Kind.TABLE, Kind.VIEW, Kind.SHARED_TRANSACTION})


def stage_names(draft: Draft, changes: Changes) -> None:
    """Draft all changes of namespaces, tables, views and shared transactions.

    An object lives as long as a name leads to it: a rename takes one name away
    and gives another one, so the object stays, and so do two that swap names.
    """
    staging = _Names(draft, changes)
    for locator in sorted(changes.deletes):
        if isinstance(locator, _Locator):
            staging.leave(locator)
    for locator in sorted(changes.puts):
        if isinstance(locator, _Locator):
            staging.take(locator, changes.puts[locator])
    staging.write_objects()


@dataclass
class _Names:
    draft: Draft
    changes: Changes
    _gained: Counter[str] = field(default_factory=Counter)
    _left: dict[str, _Locator] = field(default_factory=dict)
    _put: dict[str, tuple[_Locator, Object]] = field(default_factory=dict)
    _keys: dict[str, str] = field(default_factory=dict)
    _mapping_paths: dict[str, list[str]] = field(default_factory=dict)

    def leave(self, locator: _Locator) -> None:
        """Take a name away from its object."""
        key = self.draft.base.key_of(locator)
        self.draft.touch(locator, key or said_of(locator))
        text = None if key is None else self.draft.value_of(key)
        if key is not None and text is not None:
            self.draft.set(key, None)
            named = read_named(text)
            self._lose(named, locator)
            paths = self.draft.unmap(named.mapping_folder, _id(named.folder))
            self._mapping_paths.setdefault(named.folder, []).extend(paths)

    def take(self, locator: _Locator, value: Object) -> None:
        """Give a name to an object."""
        namespace_id = self._namespace_id(locator)
        key = name_key(locator.kind, namespace_id, locator.name)
        self.draft.touch(locator, key)
        folder = _folder(value)
        self._put[folder] = (locator, value)
        self._keys[folder] = key
        text = self.draft.value_of(key)
        there = None if text is None else read_named(text)
        if there is not None and there.folder == folder:
            return
        mapping_folder = self._mapping_folder(locator, namespace_id)
        if there is not None:
            # The mapping that is there goes on counting, whatever it was called when it was made.
            mapping_folder = there.mapping_folder
            self._lose(there, locator)
        self.draft.set(key, Named(folder, mapping_folder).text)
        self._gained[folder] += 1
        self._mapping_paths.setdefault(folder, []).extend(self.draft.map(mapping_folder, _id(folder)))

    def write_objects(self) -> None:
        """Write a revision of each object that was put, and of each that has no name any more."""
        before = self._bodies_before()
        for folder, (_, value) in self._put.items():
            fields = named_fields(value, before.get(folder))
            self._write(folder, self._stored(folder), value, fields)
        for folder, locator in self._left.items():
            stored = self._stored(folder)
            if folder in self._put or stored is None:
                continue
            names = stored.names + self._gained[folder]
            if names > 0:
                is_led_to = stored.name and self.draft.value_of(stored.name) is not None
                kept = replace(stored, names=names, name=stored.name if is_led_to else "")
                self.draft.set(object_key(folder), kept.text)
            else:
                self._write(folder, stored, None, named_fields(_last_words(locator, folder), None))

    def _write(self, folder: str, current: Stored | None, value: Object | None, fields: Packed) -> None:
        stored = self.draft.put(folder, current, value, fields)
        names = (0 if current is None else current.names) + self._gained[folder]
        stored = replace(stored, names=names, name=self._keys.get(folder, ""))
        self.draft.set(object_key(folder), None if value is None else stored.text)
        self.draft.note(folder, stored, fields, self._mapping_paths.get(folder, []))

    def _lose(self, named: Named, locator: _Locator) -> None:
        self._gained[named.folder] -= 1
        self._left[named.folder] = locator

    def _stored(self, folder: str) -> Stored | None:
        return self.draft.base.stored_at(object_key(folder))

    def _bodies_before(self) -> dict[str, Packed]:
        wanted = [
            Wanted(locator.kind, folder, stored)
            for folder, (locator, _) in self._put.items()
            if (stored := self._stored(folder)) is not None
        ]
        found = self.draft.base.files.bodies(wanted)
        return {one.folder: body.fields for one, body in zip(wanted, found, strict=True)}

    def _namespace_id(self, locator: _Locator) -> str:
        """Return the id of the namespace that a name lies in, which this very transaction may create or rename."""
        if not isinstance(locator, TableLocator | ViewLocator):
            return ""
        new = self.changes.puts.get(locator.parent)
        namespace_id = new.id if isinstance(new, Namespace) else self.draft.base.namespace_id(locator.namespace)
        if namespace_id is None:
            raise NotFoundError(f"there is no namespace for the {said_of(locator)}: create it first")
        return namespace_id

    def _mapping_folder(self, locator: _Locator, namespace_id: str) -> str:
        """Return the folder that maps a name to an id; what DeltaCAT does not know needs none."""
        canonical = self.draft.base.files.revision.canonical
        match locator:
            case NamespaceLocator(name):
                return digest_of(canonical("", name))
            case TableLocator(namespace, name):
                return f"{namespace_id}/{digest_of(canonical(namespace, name))}"
            case _:
                return ""


def _folder(value: Object) -> str:
    match value:
        case Namespace():
            return value.id
        case Table():
            return f"{value.namespace_id}/{value.id}"
        case View():
            return view_folder(value.id)
        case SharedTransaction():
            return shared_transaction_folder(digest_of(value.name))
        case _:
            raise AssertionError(f"{value} has no name")


def _id(folder: str) -> str:
    return folder.rpartition("/")[2]


def _last_words(locator: _Locator, folder: str) -> Object:
    """Return what stands in the last revision of an object that is gone: enough for DeltaCAT to read past it."""
    match locator:
        case NamespaceLocator(name):
            return Namespace(folder, name)
        case TableLocator(_, name):
            return Table(_id(folder), folder.rpartition("/")[0], name)
        case ViewLocator(_, name):
            return View(_id(folder), name, "select 1")
        case SharedTransactionLocator(name):
            return SharedTransaction(name, 0, 0, 0)
