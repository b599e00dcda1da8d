"""Lakehouses made by the Java programs TrinityLake and Olympia, which can be opened and read but not written.

TrinityLake   _<64 binary digits>.ipc    _latest_hint.txt    definitions at optimised paths
Olympia       vn/<64 binary digits>      vn/latest           def/<kind>/…    node/…
"""

from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from mangrove.layouts.tree.definition_codec import DefinitionCodec, ObjectRead, SettingsRead
from mangrove.layouts.tree.java_definitions import JavaNumbers, decode_java_object, decode_java_settings
from mangrove.layouts.tree.java_rows import read_olympia_rows, read_trinitylake_rows
from mangrove.layouts.tree.keys import JAVA_KEYS
from mangrove.layouts.tree.paths import RootNames
from mangrove.layouts.tree.revision import (
    LAKEHOUSE_DEFINITION,
    NEWER,
    OLDER,
    Columns,
    Revision,
)
from mangrove.model.locators import Locator

__all__ = ["OLYMPIA_JAVA", "TRINITYLAKE_JAVA", "JavaDialect", "revisions_named"]


@dataclass(frozen=True, slots=True)
class JavaDialect:
    """How one of the Java programs writes: its nodes as a format revision, and its definitions."""

    revision: Revision
    numbers: JavaNumbers


def _dialect(revision: Revision, numbers: JavaNumbers) -> JavaDialect:
    definitions = DefinitionCodec(partial(_settings_of, numbers), partial(_object_of, numbers))
    return JavaDialect(replace(revision, definitions=definitions), numbers)


def _settings_of(numbers: JavaNumbers, data: bytes, path: str) -> SettingsRead:
    found = decode_java_settings(numbers, data, path)
    return SettingsRead(found.settings, found.sizes, b"")


def _object_of(numbers: JavaNumbers, locator: Locator, data: bytes, path: str) -> ObjectRead:
    return ObjectRead(decode_java_object(numbers, locator, data, path), b"")


TRINITYLAKE_JAVA = _dialect(
    revision=replace(
        NEWER,
        name="TrinityLake's Java program",
        columns=Columns("key", "value", None, None),
        roots=RootNames(digits=64),
        keys=JAVA_KEYS,
        read_rows=read_trinitylake_rows,
        write_rows=None,
    ),
    numbers=JavaNumbers(
        program="TrinityLake",
        lakehouse_path_size=6,
        lakehouse_view_size=None,
        lakehouse_age=9,
        lakehouse_keep=10,
        lakehouse_exports=12,
        table_type=8,
        table_format=9,
        table_format_properties=10,
        table_properties=11,
    ),
)

OLYMPIA_JAVA = _dialect(
    revision=replace(
        NEWER,
        name="Olympia's Java program",
        columns=Columns("key", "value", "pnode", None),
        roots=RootNames(digits=64, before="vn/", after=""),
        hint_path="vn/latest",
        keys=JAVA_KEYS,
        read_rows=read_olympia_rows,
        write_rows=None,
        system_names=MappingProxyType({LAKEHOUSE_DEFINITION: "catalog_def"}),
    ),
    numbers=JavaNumbers(
        program="Olympia",
        lakehouse_path_size=None,
        lakehouse_view_size=6,
        lakehouse_age=None,
        lakehouse_keep=None,
        lakehouse_exports=11,
        table_type=2,
        table_format=3,
        table_format_properties=4,
        table_properties=5,
    ),
)


def revisions_named(roots: RootNames) -> tuple[Revision, ...]:
    """Return the format revisions of which a lakehouse may be whose root nodes are named like that."""
    if roots == OLYMPIA_JAVA.revision.roots:
        return (OLYMPIA_JAVA.revision,)
    ours = (NEWER.with_roots(roots), OLDER.with_roots(roots))
    return (*ours, TRINITYLAKE_JAVA.revision) if roots == TRINITYLAKE_JAVA.revision.roots else ours
