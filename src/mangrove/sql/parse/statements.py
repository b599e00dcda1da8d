"""Syntax tree of SQL statements."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from mangrove.model.properties import NO_PROPERTIES
from mangrove.sql.parse.as_of import AsOfExpression
from mangrove.sql.parse.tokens import SqlFragment, SqlName

__all__ = [
    "AddCheck",
    "AddColumns",
    "AlterColumn",
    "AlterNamespace",
    "AlterTable",
    "AlterView",
    "Analyze",
    "Assignment",
    "BeginStatement",
    "CacheTable",
    "CallStatement",
    "CheckConstraint",
    "CommitStatement",
    "CreateNamespace",
    "CreateTable",
    "CreateView",
    "Delete",
    "Describe",
    "DropCheck",
    "DropColumns",
    "DropObject",
    "ExecuteImmediate",
    "Explain",
    "GrantStatement",
    "Insert",
    "Merge",
    "MergeWhenClause",
    "MultiInsert",
    "NewColumn",
    "Query",
    "RenameColumn",
    "RenameTo",
    "RollbackStatement",
    "SavepointStatement",
    "SetClusterBy",
    "SetComment",
    "SetProperties",
    "ShowStatement",
    "SqlLiteral",
    "SqlParameter",
    "Statement",
    "TableAction",
    "TemporaryView",
    "TruncateStatement",
    "UnsetProperties",
    "Update",
    "Use",
]


@dataclass(frozen=True, slots=True)
class Query:
    """A query for Spark, with table references to replace."""

    piece: SqlFragment
    at: str | int | AsOfExpression | None = None
    """The version, time or export at which every table is read."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A column and its new value."""

    column: tuple[str, ...]
    """The column path; empty for positional values of an insert."""
    value: SqlFragment
    start: int = field(default=0, compare=False)
    """The position of the column name, or of the value if there is none."""


@dataclass(frozen=True, slots=True)
class Insert:
    """Add the rows of a query."""

    table: SqlName
    query: Query
    columns: tuple[str, ...] = ()
    by_name: bool = False
    overwrite: bool = False
    partition: tuple[tuple[str, SqlFragment | None], ...] = ()
    """The partition columns with their values; None if the value is a column of the query."""
    if_not_exists: bool = False
    replace_where: SqlFragment | None = None
    column_places: tuple[int, ...] = field(default=(), compare=False)
    """The position of each column name."""
    options: Mapping[str, str] = NO_PROPERTIES
    """The author, the stream position and the properties of the new delta."""


@dataclass(frozen=True, slots=True)
class MultiInsert:
    """Add rows of one source to several tables; each query begins with the FROM that they share."""

    inserts: tuple[Insert, ...]

    @property
    def table(self) -> SqlName:
        """The first of the tables."""
        return self.inserts[0].table


@dataclass(frozen=True, slots=True)
class Update:
    """Change rows."""

    table: SqlName
    alias: str | None
    assignments: tuple[Assignment, ...]
    condition: SqlFragment | None = None
    common: SqlFragment | None = None
    """The WITH clause in front of the statement."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete rows."""

    table: SqlName
    alias: str | None
    condition: SqlFragment | None = None
    common: SqlFragment | None = None


@dataclass(frozen=True, slots=True)
class MergeWhenClause:
    """A WHEN clause of a merge."""

    group: str
    """One of matched, not matched, not matched by source."""
    action: str
    """One of update, update all, delete, insert, insert all."""
    condition: SqlFragment | None = None
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge a source into a table."""

    table: SqlName
    alias: str | None
    source: SqlFragment
    """A table name or a query in parentheses, with its alias."""
    source_alias: str | None
    condition: SqlFragment
    clauses: tuple[MergeWhenClause, ...] = ()
    common: SqlFragment | None = None
    with_schema_evolution: bool = False
    source_columns: tuple[str, ...] = ()
    """The column names of the source in its alias."""


@dataclass(frozen=True, slots=True)
class TruncateStatement:
    """Delete all rows."""

    table: SqlName


@dataclass(frozen=True, slots=True)
class CacheTable:
    """Cache the rows of a table in Spark's memory, or remove them."""

    name: SqlName
    action: str
    """One of cache, uncache, refresh."""
    is_lazy: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Analyze:
    """Look at a table's statistics."""

    name: SqlName


@dataclass(frozen=True, slots=True)
class ExecuteImmediate:
    """Run a statement whose text is computed."""

    text: SqlFragment
    arguments: tuple[tuple[str | None, SqlFragment], ...] = ()
    """The arguments, with their names if they are named."""
    into: SqlFragment | None = None
    """The session variables that receive the result row."""


SqlLiteral: TypeAlias = int | float | str | bool | Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class SqlParameter:
    """A parameter, `:name` or `?`, and its position."""

    name: str | None
    """None if the parameter is positional."""
    start: int


# Transactions


@dataclass(frozen=True, slots=True)
class BeginStatement:
    """Begin a transaction."""

    isolation: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class CommitStatement:
    """Commit the transaction."""

    message: str | None = None


@dataclass(frozen=True, slots=True)
class RollbackStatement:
    """Roll back the transaction, or to a savepoint."""

    to: str | None = None


@dataclass(frozen=True, slots=True)
class SavepointStatement:
    """Set a savepoint."""

    name: str
    is_release: bool = False


# Queries


@dataclass(frozen=True, slots=True)
class Explain:
    """Show the plan of a query and the files it would read."""

    head: str
    query: Query


@dataclass(frozen=True, slots=True)
class TemporaryView:
    """A view that exists for the Spark session."""

    name: SqlName
    query: Query
    or_replace: bool
    is_global: bool
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """Set the default namespace."""

    namespace: SqlName


# Definitions


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    """Create a namespace."""

    name: SqlName
    if_not_exists: bool = False
    comment: str | None = None
    properties: Mapping[str, str] = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set properties."""

    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    """Remove properties; with `if_exists` missing ones are ignored."""

    names: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetComment:
    """Set the comment."""

    comment: str


@dataclass(frozen=True, slots=True)
class RenameTo:
    """Rename an object."""

    name: SqlName


@dataclass(frozen=True, slots=True)
class AlterNamespace:
    """Change a namespace."""

    name: SqlName
    action: SetProperties | UnsetProperties | SetComment | RenameTo


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """A check constraint."""

    name: str | None
    condition: str


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Create a table, empty or with the rows of a query."""

    name: SqlName
    columns: str | None = None
    """The columns as schema text."""
    keys: tuple[str, ...] = ()
    checks: tuple[CheckConstraint, ...] = ()
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
    schemaless: bool = False
    """Whether the list of columns is empty, so that the table contains files."""


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column to add, as schema text, and its position."""

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
    """Rename a column."""

    path: tuple[str, ...]
    to: str


@dataclass(frozen=True, slots=True)
class DropColumns:
    """Drop columns."""

    paths: tuple[tuple[str, ...], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterColumn:
    """Change one attribute of a column."""

    path: tuple[str, ...]
    what: str
    """One of type, comment, first, after, default, drop default, not null, null."""
    value: str = ""


@dataclass(frozen=True, slots=True)
class AddCheck:
    """Add a check constraint."""

    check: CheckConstraint


@dataclass(frozen=True, slots=True)
class DropCheck:
    """Drop a check constraint."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetClusterBy:
    """Set the clustering columns."""

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
    """Create a view."""

    name: SqlName
    query: Query
    columns: tuple[tuple[str, str | None], ...] = ()
    """The column names and comments, if given."""
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
    """Describe a namespace, a table or view, a column, or the history."""

    kind: str
    name: SqlName
    is_extended: bool = False
    column: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShowStatement:
    """List something."""

    kind: str
    name: SqlName | None = None
    pattern: str | None = None
    limit: int | None = None


# Access control


@dataclass(frozen=True, slots=True)
class GrantStatement:
    """Grant or revoke a privilege or a role."""

    grantee: str
    is_revoke: bool
    privilege: str | None = None
    """None for a role."""
    kind: str = "lakehouse"
    """The kind of the object: lakehouse, namespace, or table for a table or view."""
    name: SqlName | None = None
    role: str | None = None


# Procedures


@dataclass(frozen=True, slots=True)
class CallStatement:
    """Run a procedure."""

    name: SqlName
    positional: tuple[SqlLiteral | SqlParameter, ...] = ()
    named: Mapping[str, SqlLiteral | SqlParameter] = field(default_factory=dict)


Statement: TypeAlias = (
    BeginStatement
    | CommitStatement
    | RollbackStatement
    | SavepointStatement
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
    | ShowStatement
    | Insert
    | MultiInsert
    | Update
    | Delete
    | Merge
    | TruncateStatement
    | CallStatement
    | CacheTable
    | Analyze
    | ExecuteImmediate
    | GrantStatement
)
