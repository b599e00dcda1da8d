"""Assignment of live data files to Iceberg partition specs and partition values."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.typedef import Record

from mangrove.errors import InvalidInputError
from mangrove.iceberg.partition_specs import PublishedPartitionSpec, list_published_specs
from mangrove.iceberg.values import has_partition_record, to_partition_record
from mangrove.model.manifests import IDENTITY_ENCODING, PARQUET, DataFile
from mangrove.model.partitioning import PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.values import Value
from mangrove.tables.iceberg_names import format_file_identity
from mangrove.tables.scan_plan import FileScan
from mangrove.tables.table_state import TableState

__all__ = ["PartitionedFile", "assign_partitions"]


@dataclass(frozen=True, slots=True)
class PartitionedFile:
    """A file of rows, with what Iceberg is told about where it belongs."""

    scan: FileScan
    address: str
    shown: PublishedPartitionSpec
    values: tuple[Value | None, ...]
    """One for each field of the scheme."""
    record: Record
    """The same as Iceberg holds them."""

    @property
    def words(self) -> str:
        """What tells the file, and all that is said of it, from others."""
        return f"{format_file_identity(self.scan.file, self.scan.position)} {self.address} {self.values!r}"


def assign_partitions(state: TableState, addresses: Sequence[str], scans: Sequence[FileScan]) -> list[PartitionedFile]:
    """Return the files of rows of a state, those of one of Iceberg's specs together, else in their order."""
    schemes = list_published_specs(state.version)
    records: dict[tuple[int, tuple[Value | None, ...]], Record] = {}
    found: list[PartitionedFile] = []
    for scan, address in zip(scans, addresses, strict=True):
        _check_readable(state.name, scan.file)
        shown, values = _place(state, scan, schemes)
        key = shown.spec.spec_id, values
        if key not in records:
            records[key] = to_partition_record(values, shown.scheme, state.schema)
        found.append(PartitionedFile(scan, address, shown, values, records[key]))
    return sorted(found, key=lambda placed: placed.shown.spec.spec_id)


def _place(
    state: TableState, scan: FileScan, schemes: Sequence[PublishedPartitionSpec]
) -> tuple[PublishedPartitionSpec, tuple[Value | None, ...]]:
    """Return by what a file is divided; a file of which nobody can say it belongs to the spec without fields."""
    if state.log_scheme.fields:
        scheme: PartitionScheme | None = state.log_scheme
        values: tuple[Value | None, ...] | None = scan.log_values
    else:
        scheme, values = state.file_scheme, scan.file.partition_values
    for shown in schemes[1:]:
        if shown.scheme != scheme or values is None or len(values) != len(shown.scheme.fields):
            continue
        if has_partition_record(values, shown.scheme, state.schema) and _may_be(values, shown.scheme, state.schema):
            return shown, values
    return schemes[0], ()


def _may_be(values: Sequence[Value | None], scheme: PartitionScheme, schema: Schema) -> bool:
    """Return whether nulls stand where a manifest has room for them: not in a field of what is never null by itself.

    A column inside a struct has no value where the struct has none.
    """
    fields = zip(scheme.fields, values, strict=True)
    return all(value is not None or schema.column_with_id(field.source_id).nullable for field, value in fields)


def _check_readable(table: str, file: DataFile) -> None:
    if file.content_type != PARQUET or file.content_encoding != IDENTITY_ENCODING:
        raise InvalidInputError(
            f"{table} holds {file.location}, which is {file.content_type} ({file.content_encoding}): only plain "
            "Parquet files are shown to Iceberg; write its rows again with a compaction"
        )
