"""Times of day with a zone, which Arrow keeps without it: conditions and partitions find them all the same."""

import datetime
from pathlib import Path

import pytest

import mangrove

HOURS = [datetime.time(hour, tzinfo=datetime.UTC) for hour in (1, 8, 23)]


@pytest.mark.parametrize("partition_by", [(), ("t",), ("bucket(4, t)",)])
def test_times_of_day_with_a_zone_are_found_by_conditions(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "t timetz, id int", partition_by=partition_by)
    table.append([*({"t": hour, "id": number} for number, hour in enumerate(HOURS)), {"t": None, "id": 3}])

    def ids(where: str) -> list[int]:
        return sorted(table.to_arrow(["id"], where)["id"].to_numpy().tolist())

    assert ids("t > '07:00:00'") == [1, 2]
    assert ids("t = '01:00:00Z'") == [0]
    assert ids("t <= '09:00:00+01:00'") == [0, 1]
    assert ids("t IS NULL") == [3]
