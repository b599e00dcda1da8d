"""Looking for keys that come twice in what an upsert wrote.

What was written is looked at, not the DataFrame, which may give other rows when
it runs again. Few keys are compared in this process, which takes less time than
Spark needs to start a task; many by Spark.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import functions as f

from mangrove.errors import InvalidInputError
from mangrove.local.parquet import read_columns
from mangrove.local.python_rows import python_rows
from mangrove.local.row_keys import check_distinct
from mangrove.model.manifests import DataFile
from mangrove.model.schema import Schema
from mangrove.spark.file_lists import FileLists
from mangrove.spark.scan import listed
from mangrove.spark.types import spark_schema
from mangrove.storage.port import Store
from mangrove.tables.table_state import TableState

__all__ = ["ROWS_HERE_MAX", "check_distinct_keys"]

ROWS_HERE_MAX: Final = 2_000_000
"""Up to so many keys are read into this process."""
_ROWS: Final = "mangrove rows"


def check_distinct_keys(
    lists: FileLists,
    store: Store,
    root_uri: str,
    state: TableState,
    files: Sequence[DataFile],
    *,
    rows_here_max: int = ROWS_HERE_MAX,
) -> None:
    """Refuse keys that come twice in the files: nothing says which row is newer."""
    if sum(file.row_count for file in files) <= rows_here_max:
        if files:
            keys = pa.concat_tables([read_columns(store, file, state.key_columns) for file in files])
            check_distinct(state.name, keys, state.key_columns)
        return
    schema = spark_schema(Schema(state.key_columns, last_column_id=state.schema.last_column_id))
    rows = lists.read(listed(files, root_uri), schema)
    counted = rows.groupBy(*(f.col(f"`{name}`") for name in rows.columns)).agg(f.count(f.lit(1)).alias(_ROWS))
    examples = python_rows(counted.where(f"`{_ROWS}` > 1").limit(3).toArrow())
    if examples:
        raise InvalidInputError(
            f"some keys occur more than once in the rows for {state.name}, and nothing says which row is newer, "
            f"for example {examples}: keep one row for each key"
        )
