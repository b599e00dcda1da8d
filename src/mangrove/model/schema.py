"""Schemas with lookup of columns by name or id."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.names import check_new_name
from mangrove.model.types import (
    COLUMN_ID_MAX,
    Column,
    DataType,
    check_column_names,
    inner_columns,
    replace_inner_columns,
)

__all__ = [
    "COLUMNS_MAX",
    "NESTING_MAX",
    "Schema",
    "assign_fresh_ids",
    "check_column_count",
    "check_has_columns",
    "check_new_columns",
]

COLUMNS_MAX: Final = 10_000
"""The maximum number of columns of a new table or view, including nested ones."""
NESTING_MAX: Final = 32
"""The maximum nesting depth of types, which bounds recursion."""
_SCHEMA_ID_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in order, each with a unique id, including nested columns.

    `last_column_id` is the largest id ever assigned in the table. It includes dropped
    columns, so that ids are never reused. A stored schema has columns; `check_has_columns` verifies that.
    """

    columns: tuple[Column, ...]
    schema_id: int = 0
    last_column_id: int = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if type(self.schema_id) is not int or not 0 <= self.schema_id <= _SCHEMA_ID_MAX:
            raise InvalidInputError(f"invalid schema_id {self.schema_id!r}; expected an integer from 0")
        check_column_names(self.columns, "the schema")
        largest = _largest_id_of_unique(self.columns)
        if self.last_column_id == -1:
            object.__setattr__(self, "last_column_id", largest)
        if type(self.last_column_id) is not int or not largest <= self.last_column_id <= COLUMN_ID_MAX:
            raise InvalidInputError(
                f"last_column_id is {self.last_column_id!r}, but a column has the id {largest}; "
                "it must be the largest id ever assigned"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in order."""
        return tuple(column.name for column in self.columns)

    def all_columns(self) -> "Iterator[tuple[tuple[str, ...], Column]]":
        """Yield every column with its path of names, parents before nested columns."""
        return _walk(self.columns, ())

    def column(self, *path: str) -> Column:
        """Return the column at a path of names, in any case: `column("address", "city")`."""
        found: Column | None = None
        level = self.columns
        for name in path:
            found = _find_column(level, name)
            if found is None:
                whole = _find_column(self.columns, ".".join(path))
                if whole is not None:
                    raise NotFoundError(
                        f"there is no column {path[-1]!r} in {path[0]!r}, but there is a column {whole.name!r}; "
                        f"write it between backticks, `{whole.name}`"
                    )
                raise NotFoundError(
                    f"there is no column {'.'.join(path)!r}: there are {', '.join(column.name for column in level)}"
                    if level
                    else f"there is no column {'.'.join(path)!r}: a plain type has no columns inside"
                )
            level = inner_columns(found.type)
        if found is None:
            raise InvalidInputError("no column was named")
        return found

    def column_with_id(self, column_id: int) -> Column:
        """Return the column with that id, wherever it is nested."""
        for _, column in self.all_columns():
            if column.id == column_id:
                return column
        raise NotFoundError(f"schema {self.schema_id} has no column with the id {column_id}")

    def path_of(self, column_id: int) -> tuple[str, ...]:
        """Return the path of names of the column with that id."""
        for path, column in self.all_columns():
            if column.id == column_id:
                return path
        raise NotFoundError(f"schema {self.schema_id} has no column with the id {column_id}")

    def has_id(self, column_id: int) -> bool:
        """Return whether a column has that id."""
        return any(column.id == column_id for _, column in self.all_columns())


def check_column_count(count: int, before: int = 0) -> None:
    """Raise an error for more columns than a new table may have, unless it had as many `before`."""
    if count > max(COLUMNS_MAX, before):
        raise InvalidInputError(
            f"the schema has {count} columns, nested ones included; expected at most {COLUMNS_MAX}: "
            "store the values in rows, or in a map"
        )


def check_has_columns(schema: Schema) -> Schema:
    """Return a schema with columns; raise an error for one without, which is never stored."""
    if not schema.columns:
        raise InvalidInputError("a schema must have at least one column")
    return schema


def check_new_columns(schema: Schema | None, before: Schema | None = None) -> None:
    """Raise an error for no or too many columns or unsafe names; columns of the schema `before` are accepted."""
    if schema is None:
        return
    check_has_columns(schema)
    names = [column.name for _, column in schema.all_columns()]
    names_before = [] if before is None else [column.name for _, column in before.all_columns()]
    check_column_count(len(names), len(names_before))
    for name in set(names).difference(names_before):
        check_new_name(name, "column")


def assign_fresh_ids(columns: Iterable[Column], after: int = 0) -> tuple[Column, ...]:
    """Return the columns with ids from `after` + 1 on, replacing existing ids.

    A level is numbered before its nested columns, so top-level columns have the small ids.
    """
    roots = tuple(columns)
    order: list[Column] = []
    waiting = deque(roots)
    while waiting:
        column = waiting.popleft()
        order.append(column)
        waiting.extend(inner_columns(column.type))
    sizes = [len(inner_columns(column.type)) for column in order]
    if after + len(order) > COLUMN_ID_MAX:
        raise InvalidInputError(f"fewer than {len(order)} column ids are left after {after}; create a new table")
    numbered: list[Column] = [replace(column, id=after + 1 + place) for place, column in enumerate(order)]
    # Children follow all of their level in `order`, so going backwards each parent meets its finished children.
    end = len(order)
    for place in range(len(order) - 1, -1, -1):
        start = end - sizes[place]
        if sizes[place]:
            inner: DataType = replace_inner_columns(numbered[place].type, iter(numbered[start:end]))
            numbered[place] = replace(numbered[place], type=inner)
        end = start
    return tuple(numbered[: len(roots)])


def _largest_id_of_unique(columns: tuple[Column, ...]) -> int:
    paths: dict[int, str] = {}
    for path, column in _walk(columns, ()):
        dotted = ".".join(path)
        if len(path) > NESTING_MAX:
            raise InvalidInputError(
                f"column {dotted!r} is nested {len(path)} levels deep; at most {NESTING_MAX} are allowed"
            )
        if column.id in paths:
            raise InvalidInputError(f"columns {paths[column.id]!r} and {dotted!r} both have the id {column.id}")
        paths[column.id] = dotted
    return max(paths, default=0)


def _walk(columns: tuple[Column, ...], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Column]]:
    for column in columns:
        path = (*above, column.name)
        yield path, column
        yield from _walk(inner_columns(column.type), path)


def _find_column(columns: tuple[Column, ...], name: str) -> Column | None:
    folded = name.casefold()
    for column in columns:
        if column.name.casefold() == folded:
            return column
    return None
