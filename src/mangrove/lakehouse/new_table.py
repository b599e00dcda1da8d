"""Argument validation and the initial objects of a new table."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_column, parse_schema
from mangrove.lakehouse.arguments import validate_count
from mangrove.model.arrow_schema import schema_from_arrow
from mangrove.model.locators import TableLocator
from mangrove.model.names import check_new_id, quote_name, split_path
from mangrove.model.objects import Stream, TableEntry, TableType, TableVersion, TableVersionState
from mangrove.model.partitioning import UNPARTITIONED, PartitionScheme, parse_partition_scheme, parse_sort_scheme
from mangrove.model.properties import NO_PROPERTIES, Properties
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
    "parse_schema_argument",
    "plan_new_table",
    "plan_schemaless_table",
    "plan_table_version",
]

FEDERATED_CATALOG: Final = "catalog"
FEDERATED_TABLE: Final = "table"
_FULL_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s]+")


def parse_schema_argument(given: object) -> Schema:
    """Return the schema given as SQL text, a dict of columns, a Mangrove, pyarrow or Spark schema."""
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
    """Return the schema of a dict; each value must describe exactly one column."""
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
        raise InvalidInputError(
            "the schema is an empty dict; expected column names and SQL types, such as {'id': 'bigint'}"
        )
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
    version: int = 1,
    stream_id: str | None = None,
) -> NewTable:
    """Return a new table with its initial objects; raise an error if the arguments are inconsistent."""
    kind = _table_type(table_type)
    columns = None if schema is None else parse_schema_argument(schema)
    if kind is not TableType.MANAGED:
        if partition_by or sort_by or checks or defaults:
            raise InvalidInputError(
                f"{locator} is {kind.value}: what its rows are and how they lie is not ours to say; leave it out"
            )
        _check_external(locator, kind, location, table_format, format_properties)
        columns, key_ids = _with_keys(columns, keys, locator)
        table = TableEntry(
            new_id(), namespace_id, locator.name, kind, table_format or kind.name, description, properties,
            format_properties, location, schema=columns, keys=key_ids,
        )  # fmt: skip
        return NewTable(table)
    columns = _validate_managed(locator, location, columns)
    validate_count(version, "the number of a table version", 1)
    table_version, stream = plan_table_version(
        locator, version, new_id() if stream_id is None else stream_id, columns, keys=keys, partition_by=partition_by,
        sort_by=sort_by, table_properties=properties, checks=checks, defaults=defaults,
    )  # fmt: skip
    table = TableEntry(
        new_id(), namespace_id, locator.name, kind, table_format or "MANGROVE", description, properties,
        format_properties, latest_table_version=version, latest_active_table_version=version,
    )  # fmt: skip
    return NewTable(table, table_version, stream)


def plan_table_version(
    locator: TableLocator,
    number: int,
    stream_id: str,
    schema: Schema | None,
    *,
    keys: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    sort_by: Sequence[str] = (),
    table_properties: Mapping[str, str] = NO_PROPERTIES,
    properties: Mapping[str, str] = NO_PROPERTIES,
    description: str | None = None,
    checks: Mapping[str, str] = NO_PROPERTIES,
    defaults: Mapping[str, str] = NO_PROPERTIES,
    state: TableVersionState = TableVersionState.ACTIVE,
    previous_version: int | None = None,
) -> tuple[TableVersion, Stream]:
    """Return a table version with its first stream; raise an error if the arguments are inconsistent.

    Without a schema the table version contains files.
    """
    check_new_id(stream_id, "stream id")
    if schema is None:
        of_columns = {"keys": keys, "partition_by": partition_by, "sort_by": sort_by, "checks": checks}
        _refuse_column_arguments(locator, of_columns)
        stream = Stream(stream_id)
        return TableVersion(
            number, None, state=state, description=description, properties=properties,
            previous_version=previous_version, latest_stream_id=stream.id,
        ), stream  # fmt: skip
    columns, key_ids = _with_keys(schema, keys, locator)
    assert columns is not None
    scheme, log_scheme = _schemes(parse_partition_scheme(partition_by, columns), key_ids)
    stream = Stream(stream_id, partition_scheme_id=log_scheme.id)
    version = TableVersion(
        number,
        columns,
        keys=key_ids,
        partition_scheme=scheme,
        earlier_partition_schemes=() if log_scheme == scheme else (log_scheme,),
        sort_scheme=parse_sort_scheme(sort_by, columns),
        state=state,
        description=description,
        properties=properties,
        previous_version=previous_version,
        latest_stream_id=stream.id,
    )
    effective = {**Properties(table_properties), **version.properties}
    check_table_properties(TableState(str(locator), "new", version, log_scheme, properties=effective), effective)
    return _add_constraints(version, defaults, checks), stream


def plan_schemaless_table(
    locator: TableLocator,
    namespace_id: str,
    new_id: Callable[[], str],
    *,
    table_type: TableType | str = TableType.MANAGED,
    table_format: str | None = None,
    properties: Mapping[str, str] = NO_PROPERTIES,
    description: str | None = None,
    version: int = 1,
    stream_id: str | None = None,
    **others: object,
) -> NewTable:
    """Return a new table that contains files; raise an error for arguments about columns."""
    _refuse_column_arguments(locator, others)
    if _table_type(table_type) is not TableType.MANAGED:
        raise InvalidInputError(f"{locator} is schemaless: leave out the table type")
    validate_count(version, "the number of a table version", 1)
    chosen_id = new_id() if stream_id is None else stream_id
    table_version, stream = plan_table_version(locator, version, chosen_id, None)
    table = TableEntry(
        new_id(), namespace_id, locator.name, TableType.MANAGED, table_format or "MANGROVE", description, properties,
        latest_table_version=version, latest_active_table_version=version,
    )  # fmt: skip
    return NewTable(table, table_version, stream)


def _refuse_column_arguments(locator: TableLocator, given: Mapping[str, object]) -> None:
    refused = [name for name, value in given.items() if value]
    if refused:
        raise InvalidInputError(f"{locator} is schemaless: leave out {', '.join(refused)}")


def _validate_managed(locator: TableLocator, location: str | None, columns: Schema | None) -> Schema:
    if location is not None:
        raise InvalidInputError(
            f"{locator} is managed, so its data is inside the lakehouse and not at {location!r}; leave the location "
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
    for name, default in Properties(defaults).items():
        version = set_column_default(version, split_path(name), default, is_new=True)
    for name, condition in Properties(checks).items():
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
    """Return the schema with the key columns as NOT NULL, and the ids of the key columns; null is equal to nothing."""
    if not keys:
        return schema, ()
    if schema is None:
        raise InvalidInputError(f"{locator} has keys but no schema: give its columns too")
    ids = tuple(schema.column(key).id for key in keys)
    check_key_types(str(locator), [schema.column_with_id(key_id) for key_id in ids])
    columns = (replace(column, nullable=column.nullable and column.id not in ids) for column in schema.columns)
    return replace(schema, columns=tuple(columns)), ids


def _schemes(scheme: PartitionScheme, keys: tuple[int, ...]) -> tuple[PartitionScheme, PartitionScheme]:
    """Return the partition scheme of the rows, and that of their deltas.

    If rows with the same keys may belong to different partitions, all deltas are in one
    partition, because only deltas of one partition are ordered.
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
