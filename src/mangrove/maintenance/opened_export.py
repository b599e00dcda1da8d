"""Opening a place that may be an export: one that is not full is read on top of where it came from."""

from collections.abc import Callable
from functools import reduce

from mangrove.errors import FormatError, StorageError
from mangrove.maintenance.export_record import RECORD_PATH, decode_record
from mangrove.storage.port import Store

__all__ = ["opened_export"]

_COMPLETE = "full"
_LAYERS_MAX = 8


def opened_export(store: Store, open_store: Callable[[str], Store]) -> Store:
    """Return the store to open a lakehouse through: itself, or on top of what it is an incomplete export of."""
    layers = [store]
    while len(layers) <= _LAYERS_MAX:
        data = _record_in(layers[-1])
        record = None if data is None else decode_record(data, f"{RECORD_PATH} in {layers[-1].uri}")
        if record is None or record.mode == _COMPLETE:
            return layers[0] if len(layers) == 1 else _on_top(layers)
        layers.append(open_store(record.source))
    raise FormatError(
        f"{store.uri} is an export of an export, more than {_LAYERS_MAX} times over, or of itself: "
        f"see {RECORD_PATH} in each of them"
    )


def _on_top(layers: list[Store]) -> Store:
    # It knows the names of versions in both layouts, whose modules take long to import; most lakehouses are no export.
    from mangrove.maintenance.layered import LayeredStore  # noqa: PLC0415

    return reduce(lambda below, above: LayeredStore(above, below), reversed(layers))


def _record_in(store: Store) -> bytes | None:
    """Return what a place says of itself as an export; it is read first, so whatever is wrong with the place shows."""
    try:
        (data,) = store.read_many([RECORD_PATH])
    except StorageError as error:
        raise StorageError(str(error).removeprefix(f"{RECORD_PATH!r} in ")) from error
    return data
