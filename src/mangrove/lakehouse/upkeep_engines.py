"""Upkeep by the engine that was asked for, or by the one that suits how much there is to do.

How much that is becomes known on the way: when an export has found what is missing
in the copy, or a vacuum what nothing needs. So the choice is made when the files
are handed over.
"""

from collections.abc import Mapping, Sequence

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.row_engines import Engines, SparkRows
from mangrove.maintenance.checked_files import CountMany, counting_at_once
from mangrove.maintenance.copying import copy_files
from mangrove.maintenance.engine_choice import COPYING, COUNTING, DELETING, Limits, checked_engine, is_for_spark
from mangrove.maintenance.progress import Watch
from mangrove.maintenance.vacuum import delete_files
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.paths import is_uri
from mangrove.storage.port import Store

__all__ = ["UpkeepEngines"]


class UpkeepEngines:
    """What copies, deletes and counts for one lakehouse; an engine that was asked for and is not there is refused."""

    def __init__(
        self, engines: Engines | None, asked: str | None, destination_options: Mapping[str, str] | None = None
    ) -> None:
        self._engines = engines
        self._asked = checked_engine(asked)
        self._options = destination_options
        if asked == "spark":
            self._spark()

    def copy_files(
        self, source: Store, destination: Store, sizes: Mapping[str, int], watch: Watch, *, last: str | None = None
    ) -> None:
        """Copy the files, each of the size that is said; the one at `last` when all others are there."""
        if self._is_for_spark(COPYING, sizes, source, destination):
            self._spark().copier(self._options)(source, destination, sizes, watch, last=last)
        else:
            copy_files(source, destination, sizes, watch, last=last)

    def delete_files(self, store: Store, sizes: Mapping[str, int], watch: Watch) -> None:
        """Delete the files."""
        if self._is_for_spark(DELETING, sizes, store):
            self._spark().executors().delete_files(store, sizes, watch)
        else:
            delete_files(store, sizes, watch)

    @property
    def count_rows(self) -> CountMany | None:
        """What counts the rows of the lakehouse's own files, where there are engines at all."""
        return None if self._engines is None else self._counted

    @property
    def count_rows_there(self) -> CountMany | None:
        """What counts the rows of files at the destination."""
        return None if self._engines is None else self._counted_there

    def _counted(self, store: Store, files: Sequence[DataFile], watch: Watch) -> Mapping[str, int | str]:
        return self._counted_with(None, store, files, watch)

    def _counted_there(self, store: Store, files: Sequence[DataFile], watch: Watch) -> Mapping[str, int | str]:
        return self._counted_with(self._options, store, files, watch)

    def _counted_with(
        self, options: Mapping[str, str] | None, store: Store, files: Sequence[DataFile], watch: Watch
    ) -> Mapping[str, int | str]:
        assert self._engines is not None
        here = counting_at_once(self._engines.reader().count_rows)
        sizes = {file.location: file.size_bytes for file in files if _is_ours(file)}
        if not self._is_for_spark(COUNTING, sizes, store):
            return here(store, files, watch)
        ours = [file for file in files if file.location in sizes]
        others = [file for file in files if file.location not in sizes]
        return {
            **self._spark().executors(options).counted_rows(store, ours, watch),
            **here(store, others, watch),
        }

    def _is_for_spark(self, limits: Limits, sizes: Mapping[str, int], *stores: Store) -> bool:
        can = self._engines is not None and self._engines.spark_sees(*(store.uri for store in stores))
        return is_for_spark(self._asked, limits, len(sizes), sum(sizes.values()), spark_can=can)

    def _spark(self) -> SparkRows:
        if self._engines is None:
            raise InvalidInputError("Spark was not handed in: open the lakehouse with mangrove.open or mangrove.create")
        return self._engines.spark()


def _is_ours(file: DataFile) -> bool:
    """Return whether executors can count the rows; what is no Parquet below the root is taken at its word."""
    return file.content_type == PARQUET and not is_uri(file.location)
