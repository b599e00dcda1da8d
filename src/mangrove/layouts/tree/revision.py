"""Format revisions of the tree layout.

A lakehouse says itself which one it has: by the columns of its nodes, and by the
width of its root nodes' names. What its hint file is called is only advice.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mangrove.betree.node import Node
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.definition_files import MANGROVE_DEFINITIONS, DefinitionCodec
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
from mangrove.layouts.tree.paths import ROOT_DIGITS_KNOWN, RootNames, newer_node_path, older_node_path

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
    """What the columns of a node file are called; without one for children or transactions it has none."""

    key: str
    value: str
    child: str | None
    transaction: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a node file has, in the order in which they are written."""
        return tuple(name for name in (self.key, self.value, self.child, self.transaction) if name is not None)

    def named(
        self, keys: TextColumn, values: TextColumn, children: TextColumn, transactions: TextColumn
    ) -> dict[str, TextColumn]:
        """Return these columns by their names in a file, without those that it does not have."""
        names = (self.key, self.value, self.child, self.transaction)
        contents = (keys, values, children, transactions)
        return {name: texts for name, texts in zip(names, contents, strict=True) if name is not None}


@dataclass(frozen=True, slots=True)
class TreeRevision:
    """One way in which the tree layout has been specified, or in which another program writes it.

    System rows have the names above everywhere but in files; `system_names` says
    which are called otherwise there.
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

    def check_writable(self) -> None:
        """Refuse to change a lakehouse of a program whose files are only read here."""
        if self.write_rows is None:
            raise InvalidInputError(
                f"a lakehouse written by {self.name} can only be read, and nothing was changed: "
                "copy its tables into a new lakehouse with `mangrove convert`, and write there"
            )

    def has_system_rows(self, system: Mapping[str, str]) -> bool:
        """Return whether a node about which that is known has system rows: roots do, others may not."""
        return LAKEHOUSE_DEFINITION in system or not self.system_rows_in_roots_only

    def with_roots(self, roots: RootNames) -> "TreeRevision":
        """Return this format revision for a lakehouse whose root nodes are named like that."""
        return replace(self, roots=roots)


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
    """Return how root nodes are named among the files at the top of a root URI, or None if there are none.

    Two widths in one place would give one version two names, and two writers
    could both win it: that is refused.
    """
    candidates = [RootNames(digits) for digits in ROOT_DIGITS_KNOWN]
    found = {names: path for path in paths for names in candidates if names.is_root(path)}
    if len(found) > 1:
        raise FormatError(
            f"root nodes of different widths lie side by side ({', '.join(found.values())}): "
            "one of them was not written for this lakehouse; move it away"
        )
    return next(iter(found), None)


def detect_revision(columns: Iterable[str], known: Iterable[TreeRevision] = (NEWER, OLDER)) -> TreeRevision | None:
    """Return the format revision whose node files have these columns, or None if none has.

    Columns that none of them knows may be there too. A file with some of the
    columns of one and all of another's is damaged rather than the other's.
    """
    candidates = tuple(known)
    there = set(columns) & {name for revision in candidates for name in revision.columns.names}
    return next((revision for revision in candidates if there == set(revision.columns.names)), None)
