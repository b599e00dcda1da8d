"""The file in a converted lakehouse that says what was converted and how, so that it can go on where it stopped."""

import json
from dataclasses import asdict, dataclass

from mangrove.errors import FormatError

__all__ = ["CONVERSION_PATH", "ConversionRecord", "decode_conversion", "encode_conversion"]

CONVERSION_PATH = "_mangrove_conversion.json"


@dataclass(frozen=True, slots=True)
class ConversionRecord:
    """From where a lakehouse is converted into which layout, and how much of it."""

    source: str
    layout: str
    history: str
    data: str
    first_version: int
    """The version of the source that became version 0; a shorter history would give all others other numbers."""

    def __post_init__(self) -> None:
        texts = (self.source, self.layout, self.history, self.data)
        if not all(isinstance(text, str) for text in texts) or type(self.first_version) is not int:
            raise FormatError(f"a conversion's record is of other types than it should be: {self!r}")

    def __str__(self) -> str:
        return f"a conversion of {self.source} from version {self.first_version} on ({self.history}, {self.data})"


def encode_conversion(record: ConversionRecord) -> bytes:
    """Return the record as JSON.

    >>> record = ConversionRecord("s3://b/lake/", "deltacat", "all", "copy", 0)
    >>> decode_conversion(encode_conversion(record), "here") == record
    True
    """
    return json.dumps(asdict(record), ensure_ascii=False, indent=1).encode()


def decode_conversion(data: bytes, where: str) -> ConversionRecord:
    """Return the record that a file holds."""
    try:
        return ConversionRecord(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise FormatError(
            f"{where} does not say what was converted ({error!r}): convert again to another place"
        ) from error
