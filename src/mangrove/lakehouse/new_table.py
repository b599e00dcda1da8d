"""Argument validation and the initial objects of a new table."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_column, parse_schema
from mangrove.model.arrow_schema import schema_from_arrow
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator, parse_table_name, parse_view_name
from mangrove.model.names import check_text, quote_name, split_name, split_path
from mangrove.model.objects import Stream, TableEntry, TableType, TableVersion
from mangrove.model.partitioning import UNPARTITIONED, PartitionScheme, parse_partition_scheme, parse_sort_scheme
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import Schema, assign_fresh_ids
from mangrove.model.types import Column, DataType
from mangrove.tables.constraints import add_check_constraint, check_defaults
from mangrove.tables.schema_evolution import set_column_default
from mangrove.tables.table_properties import check_table_properties
from mangrove.tables.table_state import TableState, check_key_types, is_partition_determined_by_keys
from mangrove.transaction.catalog import NewTable

__all__ = [
    "FEDERATED_CATALOG",
    "FEDERATED_TABLE",
    "build_schema",
    "parse_namespace_argument",
    "parse_schema_argument",
    "parse_table_argument",
    "parse_view_argument",
    "plan_new_table",
    "plan_schemaless_table",
    "validate_count",
    "validate_limit",
    "validate_prefix",
    "validate_texts",
]

_COUNT_MAX: Final = 2**62


def validate_count(given: object, what: str, least: int = 0) -> int:
    """Return a whole number that counts something or names a version."""
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= _COUNT_MAX:
        raise InvalidInputError(f"{what} was given as {given!r}: it is a whole number from {least}")
    return given


def validate_limit(given: object) -> int | None:
    """Return how many entries of a list are wanted; None is all."""
    return None if given is None else validate_count(given, "the limit of a list")


def validate_prefix(given: object) -> str:
    """Return with what names shall begin."""
    return _validate_text(given, "the beginning of a name")


def validate_texts(given: object, what: str) -> tuple[str, ...]:
    """Return a list of texts; one text by itself is a list of one, and None a list of none.

    >>> validate_texts("id", "the keys"), validate_texts(["a", "b"], "the keys"), validate_texts(None, "the keys")
    (('id',), ('a', 'b'), ())
    """
    if given is None:
        return ()
    if isinstance(given, str):
        return (_validate_text(given, what),)
    if not isinstance(given, Iterable) or isinstance(given, bytes | bytearray):
        raise InvalidInputError(f"{what} were given as {given!r}: give a list of texts")
    return tuple(_validate_text(one, what) for one in given)


def parse_namespace_argument(name: str | NamespaceLocator) -> NamespaceLocator:
    """Return the namespace that is meant."""
    if isinstance(name, NamespaceLocator):
        return name
    parts = split_name(name)
    if len(parts) != 1:
        raise InvalidInputError(
            f"{name!r} has {len(parts)} parts: a namespace's name is one, with backticks if it holds a dot"
        )
    return NamespaceLocator(parts[0])


def parse_table_argument(name: str | TableLocator) -> TableLocator:
    """Return the table that is meant."""
    return name if isinstance(name, TableLocator) else parse_table_name(name)


def parse_view_argument(name: str | ViewLocator) -> ViewLocator:
    """Return the view that is meant."""
    return name if isinstance(name, ViewLocator) else parse_view_name(name)


def _validate_text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise InvalidInputError(f"{given!r} was given for {what}: give text")
    check_text(given, what)
    return given


FEDERATED_CATALOG: Final = "catalog"
FEDERATED_TABLE: Final = "table"
_FULL_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s]+")


def parse_schema_argument(given: object) -> Schema:
    """Return the schema that is given as SQL text, by the names of columns, as our own value, pyarrow's or Spark's."""
    if isinstance(given, Schema):
        return given
    if isinstance(given, str):
        return parse_schema(given)
    if isinstance(given, Mapping):
        return _schema_by_names(given)
    origin = type(given).__module__.partition(".")[0]
    if origin == "pyarrow":
        arrow: Any = given
        return schema_from_arrow(arrow)
    if origin == "pyspark" and hasattr(given, "fields"):
        return parse_schema(", ".join(_spark_column(field) for field in given.fields))
    raise InvalidInputError(
        f"{given!r} is no schema: give SQL text such as 'id bigint not null, name string', "
        "a dict of names and SQL types, a pyarrow schema or a Spark StructType"
    )


def _schema_by_names(given: Mapping[Any, Any]) -> Schema:
    """Return the schema of a dict; each text describes one column, so that none can bring another along."""
    columns = []
    for name, words in given.items():
        if not isinstance(name, str) or not name or not isinstance(words, str):
            raise InvalidInputError(
                f"the schema gives {words!r} for the column {name!r}: give names and SQL types as text, such as "
                "{'id': 'bigint not null', 'name': 'string'}"
            )
        try:
            columns.append(parse_column(f"{quote_name(name)} {words}"))
        except InvalidInputError as error:
            raise InvalidInputError(f"column {name!r} of the schema cannot be read: {error}") from error
    if not columns:
        raise InvalidInputError("the schema is an empty dict: give names and SQL types, such as {'id': 'bigint'}")
    return Schema(assign_fresh_ids(columns))


def plan_new_table(
    locator: TableLocator,
    namespace_id: str,
    new_id: Callable[[], str],
    *,
    schema: object | None = None,
    keys: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    sort_by: Sequence[str] = (),
    table_type: TableType | str = TableType.MANAGED,
    table_format: str | None = None,
    location: str | None = None,
    format_properties: Mapping[str, str] = NO_PROPERTIES,
    properties: Mapping[str, str] = NO_PROPERTIES,
    description: str | None = None,
    checks: Mapping[str, str] = NO_PROPERTIES,
    defaults: Mapping[str, str] = NO_PROPERTIES,
) -> NewTable:
    """Return the table with all that it starts with, or say what does not fit together."""
    kind = _table_type(table_type)
    columns, key_ids = _with_keys(None if schema is None else parse_schema_argument(schema), keys, locator)
    if kind is not TableType.MANAGED:
        if partition_by or sort_by or checks or defaults:
            raise InvalidInputError(
                f"{locator} is {kind.value}: what its rows are and how they lie is not ours to say; leave it out"
            )
        _check_external(locator, kind, location, table_format, format_properties)
        table = TableEntry(
            new_id(), namespace_id, locator.name, kind, table_format or kind.name, description, properties,
            format_properties, location, schema=columns, keys=key_ids,
        )  # fmt: skip
        return NewTable(table)
    columns = _validate_managed(locator, location, columns)
    scheme, log_scheme = _schemes(parse_partition_scheme(partition_by, columns), key_ids)
    stream = Stream(new_id(), partition_scheme_id=log_scheme.id)
    version = TableVersion(
        1,
        columns,
        keys=key_ids,
        partition_scheme=scheme,
        earlier_partition_schemes=() if log_scheme == scheme else (log_scheme,),
        sort_scheme=parse_sort_scheme(sort_by, columns),
        latest_stream_id=stream.id,
    )
    table = TableEntry(
        new_id(), namespace_id, locator.name, kind, table_format or "MANGROVE", description, properties,
        format_properties, latest_table_version=1, latest_active_table_version=1,
    )  # fmt: skip
    state = TableState(str(locator), table.id, version, log_scheme, properties=table.properties)
    check_table_properties(state, table.properties)
    return NewTable(table, _add_constraints(version, defaults, checks), stream)


def plan_schemaless_table(
    locator: TableLocator,
    namespace_id: str,
    new_id: Callable[[], str],
    *,
    table_type: TableType | str = TableType.MANAGED,
    table_format: str | None = None,
    properties: Mapping[str, str] = NO_PROPERTIES,
    description: str | None = None,
    **others: object,
) -> NewTable:
    """Return a table of files as they are; raise an error for arguments about columns."""
    refused = [name for name, value in others.items() if value]
    if refused or _table_type(table_type) is not TableType.MANAGED:
        raise InvalidInputError(f"{locator} is schemaless: leave out {', '.join(refused) or 'the table type'}")
    stream = Stream(new_id())
    table = TableEntry(
        new_id(), namespace_id, locator.name, TableType.MANAGED, table_format or "MANGROVE", description, properties,
        latest_table_version=1, latest_active_table_version=1,
    )  # fmt: skip
    return NewTable(table, TableVersion(1, None, latest_stream_id=stream.id), stream)


def _validate_managed(locator: TableLocator, location: str | None, columns: Schema | None) -> Schema:
    if location is not None:
        raise InvalidInputError(
            f"{locator} is managed, so its data lies inside the lakehouse and not at {location!r}: leave the location "
            "out, or make the table external"
        )
    if columns is None:
        raise InvalidInputError(
            f"{locator} has no schema: give its columns, as in 'id bigint not null, name string', or schemaless=True "
            "for a table of files as they are"
        )
    return columns


def _add_constraints(version: TableVersion, defaults: Mapping[str, str], checks: Mapping[str, str]) -> TableVersion:
    if version.schema is not None:
        check_defaults(version.schema)
    for name, default in defaults.items():
        version = set_column_default(version, split_path(name), default, is_new=True)
    for name, condition in checks.items():
        version = add_check_constraint(version, name, condition)
    return version


def build_schema(columns: Mapping[str, DataType | None]) -> Schema:
    """Return the schema of a table for rows with these columns."""
    for name, data_type in columns.items():
        if data_type is None:
            raise InvalidInputError(f"column {name!r} has only nulls, so its type is unknown; pass a schema")
    return Schema(assign_fresh_ids(Column(0, name, data_type) for name, data_type in columns.items() if data_type))


def _table_type(given: TableType | str) -> TableType:
    try:
        return TableType(given.lower()) if isinstance(given, str) else TableType(given)
    except ValueError:
        raise InvalidInputError(
            f"{given!r} is no type of table: use one of {', '.join(one.value for one in TableType)}"
        ) from None


def _with_keys(
    schema: Schema | None, keys: Sequence[str], locator: TableLocator
) -> tuple[Schema | None, tuple[int, ...]]:
    """Return the ids of the key columns, and the schema in which they are NOT NULL: null equals nothing."""
    if not keys:
        return schema, ()
    if schema is None:
        raise InvalidInputError(f"{locator} has keys but no schema: give its columns too")
    ids = tuple(schema.column(key).id for key in keys)
    check_key_types(str(locator), [schema.column_with_id(key_id) for key_id in ids])
    columns = (replace(column, nullable=column.nullable and column.id not in ids) for column in schema.columns)
    return replace(schema, columns=tuple(columns)), ids


def _schemes(scheme: PartitionScheme, keys: tuple[int, ...]) -> tuple[PartitionScheme, PartitionScheme]:
    """Return the scheme by which rows are divided, and the one by which their deltas are.

    Where a row with the same keys may move to another partition, all deltas go
    together, because only then is it known which of them came later.
    """
    if not keys or is_partition_determined_by_keys(keys, scheme):
        return scheme, scheme
    return replace(scheme, id="1"), UNPARTITIONED


def _check_external(
    locator: TableLocator,
    kind: TableType,
    location: str | None,
    table_format: str | None,
    format_properties: Mapping[str, str],
) -> None:
    if kind is TableType.EXTERNAL:
        if location is None or not _FULL_URI.fullmatch(location):
            raise InvalidInputError(
                f"external table {locator} has the location {location!r}: give the full URI of its data, "
                "as in s3://bucket/folder/"
            )
        if not table_format:
            raise InvalidInputError(f"external table {locator} has no table_format: say how its files are read")
        return
    missing = {FEDERATED_CATALOG, FEDERATED_TABLE} - format_properties.keys()
    if missing or location is not None:
        raise InvalidInputError(
            f"federated table {locator} is found through another catalog's client: give format_properties with "
            f"'{FEDERATED_CATALOG}' and '{FEDERATED_TABLE}', and no location"
        )


def _spark_column(field: Any) -> str:
    return f"{quote_name(field.name)} {field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
