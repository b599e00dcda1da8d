"""The file in an export that says what it is a copy of, so that a copy can be resumed and completed from its source."""

import json
from dataclasses import asdict, dataclass

from mangrove.errors import FormatError

__all__ = ["RECORD_PATH", "ExportRecord", "decode_record", "encode_record"]

RECORD_PATH = "_mangrove_export.json"


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """What was copied from where."""

    source: str
    name: str
    version: int
    mode: str
    tables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        texts = (self.source, self.name, self.mode, *self.tables)
        if not all(isinstance(text, str) for text in texts) or type(self.version) is not int:
            raise FormatError(f"an export's record is of other types than it should be: {self!r}")


def encode_record(record: ExportRecord) -> bytes:
    """Return the record as JSON.

    >>> decode_record(encode_record(ExportRecord("s3://b/lake/", "year-end", 41, "full")), "here").version
    41
    """
    return json.dumps(asdict(record), ensure_ascii=False, indent=1).encode()


def decode_record(data: bytes, where: str) -> ExportRecord:
    """Return the record that a file holds."""
    try:
        fields = json.loads(data)
        return ExportRecord(**{**fields, "tables": tuple(fields["tables"])})
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(
            f"{where} does not say what it is an export of ({error!r}): copy it again to another place"
        ) from error
