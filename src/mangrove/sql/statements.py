"""The statements that define, tell or control something, as values: taken apart and not yet looked up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from mangrove.model.properties import NO_PROPERTIES
from mangrove.sql.cursor import SqlName
from mangrove.sql.row_statements import Delete, Insert, Merge, MultiInsert, Query, Truncate, Update
from mangrove.sql.session_statements import Analyze, CacheTable, ExecuteImmediate

__all__ = [
    "AddCheck",
    "AddColumns",
    "AlterColumn",
    "AlterNamespace",
    "AlterTable",
    "AlterView",
    "Begin",
    "Call",
    "CheckRule",
    "Commit",
    "CreateNamespace",
    "CreateTable",
    "CreateView",
    "Describe",
    "DropCheck",
    "DropColumns",
    "DropObject",
    "Explain",
    "Literal",
    "NewColumn",
    "RenameColumn",
    "RenameTo",
    "Rollback",
    "Savepoint",
    "SetClusterBy",
    "SetComment",
    "SetProperties",
    "Show",
    "Statement",
    "TableAction",
    "TemporaryView",
    "UnsetProperties",
    "Use",
]

Literal: TypeAlias = int | float | str | bool | None


# Transactions


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a transaction."""

    isolation: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """Make the transaction real."""

    message: str | None = None


@dataclass(frozen=True, slots=True)
class Rollback:
    """Forget the transaction, or what came after a savepoint."""

    to: str | None = None


@dataclass(frozen=True, slots=True)
class Savepoint:
    """Remember what the transaction has done so far."""

    name: str
    is_release: bool = False


# Queries


@dataclass(frozen=True, slots=True)
class Explain:
    """How Spark would run a query, and which files it would read."""

    head: str
    query: Query


@dataclass(frozen=True, slots=True)
class TemporaryView:
    """A query with a name that lasts as long as Spark's session."""

    name: SqlName
    query: Query
    or_replace: bool
    is_global: bool
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """Where names without a namespace are looked up from now on."""

    namespace: SqlName


# Definitions


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    """Make a namespace."""

    name: SqlName
    if_not_exists: bool = False
    comment: str | None = None
    properties: Mapping[str, str] = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Put properties."""

    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    """Remove properties; those that are not there only where `if_exists` is said."""

    names: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetComment:
    """Describe anew."""

    comment: str


@dataclass(frozen=True, slots=True)
class RenameTo:
    """Give another name."""

    name: SqlName


@dataclass(frozen=True, slots=True)
class AlterNamespace:
    """Change a namespace."""

    name: SqlName
    action: SetProperties | UnsetProperties | SetComment | RenameTo


@dataclass(frozen=True, slots=True)
class CheckRule:
    """A condition that every row fulfils."""

    name: str | None
    condition: str


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Make a table, empty or with the rows of a query."""

    name: SqlName
    columns: str | None = None
    """As the model's schemas are written."""
    keys: tuple[str, ...] = ()
    checks: tuple[CheckRule, ...] = ()
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    table_format: str | None = None
    location: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] = NO_PROPERTIES
    options: Mapping[str, str] = NO_PROPERTIES
    like: SqlName | None = None
    query: Query | None = None
    is_external: bool = False
    if_not_exists: bool = False
    or_replace: bool = False
    must_exist: bool = False


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column to add, as the model's schemas are written, and where."""

    path: tuple[str, ...]
    type_words: str
    is_first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumns:
    """Add columns."""

    columns: tuple[NewColumn, ...]


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Give a column another name."""

    path: tuple[str, ...]
    to: str


@dataclass(frozen=True, slots=True)
class DropColumns:
    """Drop columns."""

    paths: tuple[tuple[str, ...], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterColumn:
    """Change one thing about a column."""

    path: tuple[str, ...]
    what: str
    """One of type, comment, first, after, default, drop default, not null, null."""
    value: str = ""


@dataclass(frozen=True, slots=True)
class AddCheck:
    """Add a condition that every row fulfils."""

    check: CheckRule


@dataclass(frozen=True, slots=True)
class DropCheck:
    """Drop such a condition."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetClusterBy:
    """Say anew by what the rows of files are ordered."""

    columns: tuple[str, ...]


TableAction: TypeAlias = (
    SetProperties
    | UnsetProperties
    | SetComment
    | RenameTo
    | AddColumns
    | RenameColumn
    | DropColumns
    | AlterColumn
    | AddCheck
    | DropCheck
    | SetClusterBy
)


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Change a table."""

    name: SqlName
    action: TableAction


@dataclass(frozen=True, slots=True)
class CreateView:
    """Give a query a name in the lakehouse."""

    name: SqlName
    query: Query
    columns: tuple[tuple[str, str | None], ...] = ()
    """The names and comments of its columns, where they are given."""
    comment: str | None = None
    properties: Mapping[str, str] = NO_PROPERTIES
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterView:
    """Change a view."""

    name: SqlName
    action: SetProperties | UnsetProperties | SetComment | RenameTo | Query


@dataclass(frozen=True, slots=True)
class DropObject:
    """Drop a namespace, a table or a view."""

    kind: str
    name: SqlName
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class Describe:
    """Tell about a namespace, a table or view, a column, or the history."""

    kind: str
    name: SqlName
    is_extended: bool = False
    column: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Show:
    """List something."""

    kind: str
    name: SqlName | None = None
    pattern: str | None = None
    limit: int | None = None


# Procedures


@dataclass(frozen=True, slots=True)
class Call:
    """Run a procedure."""

    name: SqlName
    positional: tuple[Literal, ...] = ()
    named: Mapping[str, Literal] = field(default_factory=dict)


Statement: TypeAlias = (
    Begin
    | Commit
    | Rollback
    | Savepoint
    | Query
    | Explain
    | TemporaryView
    | Use
    | CreateNamespace
    | AlterNamespace
    | CreateTable
    | AlterTable
    | CreateView
    | AlterView
    | DropObject
    | Describe
    | Show
    | Insert
    | MultiInsert
    | Update
    | Delete
    | Merge
    | Truncate
    | Call
    | CacheTable
    | Analyze
    | ExecuteImmediate
)
