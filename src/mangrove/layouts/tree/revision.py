"""Format revisions of the tree layout.

The revision is detected from the node columns and the width of the root node
names. The name of the hint file is not authoritative.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mangrove.betree.node import Node
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.definition_files import DefinitionCodec
from mangrove.layouts.tree.definitions import MANGROVE_DEFINITIONS
from mangrove.layouts.tree.keys import NEWER_KEYS, OLDER_KEYS, KeyEncoding
from mangrove.layouts.tree.node_rows import (
    NodeRows,
    NodeSections,
    TextColumn,
    decode_newer_rows,
    decode_older_rows,
    encode_newer_rows,
    encode_older_rows,
)
from mangrove.layouts.tree.paths import (
    PATH_BYTES_MIN,
    ROOT_DIGITS_KNOWN,
    RootNames,
    newer_node_path,
    older_node_path,
)
from mangrove.model.locators import Kind
from mangrove.model.settings import LakehouseSettings

__all__ = [
    "CREATED_AT_MILLIS",
    "LAKEHOUSE_DEFINITION",
    "NEWER",
    "OLDER",
    "PREVIOUS_ROOT",
    "ROLLBACK_FROM_ROOT",
    "NodeColumns",
    "TreeRevision",
    "detect_revision",
    "detect_root_names",
]

LAKEHOUSE_DEFINITION = "lakehouse_def"
PREVIOUS_ROOT = "previous_root"
ROLLBACK_FROM_ROOT = "rollback_from_root"
CREATED_AT_MILLIS = "created_at_millis"


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """The column names of a node file; None for children or transactions if it has no such column."""

    key: str
    value: str
    child: str | None
    transaction: str | None
    names: tuple[str, ...] = field(init=False)
    """The columns of a node file in write order."""

    def __post_init__(self) -> None:
        names = (self.key, self.value, self.child, self.transaction)
        object.__setattr__(self, "names", tuple(name for name in names if name is not None))

    def named(
        self, keys: TextColumn, values: TextColumn, children: TextColumn, transactions: TextColumn
    ) -> dict[str, TextColumn]:
        """Return these columns by their names in a file, without those that it does not have."""
        names = (self.key, self.value, self.child, self.transaction)
        contents = (keys, values, children, transactions)
        return {name: texts for name, texts in zip(names, contents, strict=True) if name is not None}


@dataclass(frozen=True, slots=True)
class TreeRevision:
    """One revision of the tree layout's specification, or the variant of another program.

    System rows have uniform names outside of files; `system_names` maps those that
    have another name in files.
    """

    name: str
    columns: NodeColumns
    roots: RootNames
    hint_path: str
    node_path: Callable[[str], str]
    keys: KeyEncoding
    read_rows: Callable[[NodeRows, int | None], NodeSections]
    write_rows: Callable[[Node, Mapping[str, str], int], NodeRows] | None
    system_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    system_rows_in_roots_only: bool = False
    definitions: DefinitionCodec = MANGROVE_DEFINITIONS

    @property
    def schema_id_size_bytes(self) -> int:
        """The size of what encloses the names in the key of a table: 4, or 5 with the space of the older revision."""
        return len(self.keys.before[Kind.TABLE]) + len(self.keys.after[Kind.TABLE])

    def check_limits(self, settings: LakehouseSettings) -> None:
        """Raise an error for settings of a new lakehouse with which its files or nodes would not fit."""
        settings.check_node_size(self.schema_id_size_bytes)
        if settings.file_path_max_size_bytes < PATH_BYTES_MIN:
            raise InvalidInputError(
                f"file_path_max_size_bytes is {settings.file_path_max_size_bytes}, but paths of data files and "
                f"definitions take up to {PATH_BYTES_MIN} bytes without names; allow at least that"
            )

    def check_writable(self) -> None:
        """Raise an error if the lakehouse was written by another program and is read-only here."""
        if self.write_rows is None:
            raise InvalidInputError(
                f"a lakehouse written by {self.name} is read-only; nothing was changed; "
                "convert it to a new lakehouse with `mangrove convert`, and write there"
            )

    def has_system_rows(self, system: Mapping[str, str]) -> bool:
        """Return whether a node has system rows: roots do, others may not."""
        return LAKEHOUSE_DEFINITION in system or not self.system_rows_in_roots_only

    def with_roots(self, roots: RootNames) -> "TreeRevision":
        """Return this format revision with these root node names."""
        return self if roots == self.roots else replace(self, roots=roots)


NEWER = TreeRevision(
    name="newer",
    columns=NodeColumns("key", "value", "pnode", "txn"),
    roots=RootNames(digits=32),
    hint_path="_latest_hint.txt",
    node_path=newer_node_path,
    keys=NEWER_KEYS,
    read_rows=decode_newer_rows,
    write_rows=encode_newer_rows,
)

OLDER = TreeRevision(
    name="older",
    columns=NodeColumns("key", "pvalue", "pnode", None),
    roots=RootNames(digits=32),
    hint_path="_latest_hint",
    node_path=older_node_path,
    keys=OLDER_KEYS,
    read_rows=decode_older_rows,
    write_rows=encode_older_rows,
    system_names=MappingProxyType({LAKEHOUSE_DEFINITION: "lakehouse"}),
    system_rows_in_roots_only=True,
)


def detect_root_names(paths: Iterable[str]) -> RootNames | None:
    """Return the naming of the root nodes among these top-level paths, or None if there are none.

    Two widths would give one version two names, and two writers could both commit it,
    so this is an error.
    """
    candidates = [RootNames(digits) for digits in ROOT_DIGITS_KNOWN]
    found = {names: path for path in paths for names in candidates if names.is_root(path)}
    if len(found) > 1:
        raise FormatError(
            f"there are root nodes with different numbers of digits ({', '.join(found.values())}); "
            "one of them belongs to another lakehouse; move it away"
        )
    return next(iter(found), None)


def detect_revision(columns: Iterable[str], known: Iterable[TreeRevision] = (NEWER, OLDER)) -> TreeRevision | None:
    """Return the format revision whose node files have these columns, or None.

    Unknown columns are ignored. A file with all columns of one revision and some of
    another is damaged.
    """
    candidates = tuple(known)
    there = set(columns) & {name for revision in candidates for name in revision.columns.names}
    return next((revision for revision in candidates if there == set(revision.columns.names)), None)
