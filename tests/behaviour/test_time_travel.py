"""What people may say about when and how long."""

from datetime import UTC, datetime, timedelta

import pytest

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.time_travel import AsOfExport, AsOfTime, AsOfVersion, parse_as_of, parse_duration_millis

NOVEMBER_MILLIS = 1_793_491_200_000


@pytest.mark.parametrize(
    "said",
    [
        "2026-11-01",
        "2026-11-01T00:00:00Z",
        "2026-11-01T01:00:00+01:00",
        datetime(2026, 11, 1, tzinfo=UTC),
        datetime(2026, 11, 1),
    ],
)
def test_a_time_without_a_zone_is_in_utc(said: str | datetime) -> None:
    assert parse_as_of(said) == AsOfTime(NOVEMBER_MILLIS)


def test_a_number_is_a_version_and_other_text_an_exports_name() -> None:
    assert parse_as_of(41) == parse_as_of("41") == AsOfVersion(41)
    assert parse_as_of("year-end") == AsOfExport("year-end")


@pytest.mark.parametrize("said", ["2026-13-01", "2026-11-01T25:00", True, None, 1.5])
def test_an_invalid_as_of_value_is_rejected(said: object) -> None:
    with pytest.raises(InvalidInputError):
        parse_as_of(said)  # type: ignore[arg-type]


def test_durations_require_a_unit_and_are_positive() -> None:
    assert parse_duration_millis("90s") == parse_duration_millis(timedelta(seconds=90)) == 90_000
    assert parse_duration_millis("1 w") == 7 * parse_duration_millis("1d")
    for bad in ("", "6", "h", "-1h", "0h", "1.5h", timedelta(0)):
        with pytest.raises(InvalidInputError):
            parse_duration_millis(bad)
