"""Which Iceberg clients perform which operations through the REST catalog of Mangrove.

    python -m benchmarks.iceberg_clients [CLIENT ...] [--write]

Clients are installed from the package registries on first use, under `.build/peers`. They are tried on
local disk and in a bucket of SeaweedFS, for which the catalog gives them keys. Each operation has tables
of its own, and Mangrove reads what the client wrote. `--write` replaces the tables in `docs/comparison.md`.
Results are stored under `.build/peers`, so the tables also have the clients of earlier runs.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.iceberg_clients.clients import BUCKET_JAR, CLIENTS, Client
from benchmarks.iceberg_clients.programs import PROGRAMS
from benchmarks.peers.environments import FOLDER, ROOT, NotAvailable, prepare_python, read_versions
from benchmarks.peers.publish import replace_section
from pyiceberg.catalog.rest import RestCatalog
from tests.peers.maven import download_artifact
from tests.support.servers import RealServer, run_mangrove, run_seaweedfs
from tests.support.trino import TRINO_VERSION, install_trino, run_trino

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table

RESULTS = FOLDER / "iceberg-client-results.json"
PAGE = ROOT / "docs" / "comparison.md"
BEGIN = "<!-- results of make iceberg-clients: begin; written by benchmarks/iceberg_clients -->"
END = "<!-- results of make iceberg-clients: end -->"
TOKEN = "token-of-the-comparison"
SECONDS_MAX = 300.0
REASON_CHARACTERS = 160
V3 = {"format-version": "3"}
STORES = {"local": "On local disk", "bucket": "In a bucket (SeaweedFS), with keys that the catalog gives"}


@dataclass(frozen=True, slots=True)
class Trial:
    """The tables of one operation, and what the client found."""

    lake: Lakehouse
    names: Mapping[str, str]
    found: Any = None

    def read_ids(self, name: str = "t") -> list[int]:
        """Return the ids in a table, as Mangrove reads them."""
        return sorted(self.lake.table(self.names[name]).to_arrow()["id"].to_numpy().tolist())

    def read_columns(self) -> list[str]:
        """Return the names of the columns."""
        return self.lake.table(self.names["t"]).to_arrow().column_names

    def read_names(self) -> dict[int, str]:
        """Return the names of rows by id."""
        return {row["id"]: row["name"] for row in self.lake.table(self.names["t"]).to_arrow().to_pylist()}


Check = Callable[[Trial], bool]


@dataclass(frozen=True, slots=True)
class Operation:
    """What is checked after an operation, and how its table is prepared."""

    check: Check
    code: str = ""
    """The name of the client's code, if it differs from that of the operation."""
    prepare: Callable[[Table], object] = lambda _: None
    properties: Mapping[str, str] = field(default_factory=dict)


def _finds(*ids: int) -> Check:
    return lambda trial: sorted(trial.found) == list(ids)


def _leaves(*ids: int, name: str = "t") -> Check:
    return lambda trial: trial.read_ids(name) == list(ids)


def _delete_some(table: Table) -> object:
    return table.delete("id < 3")


def _append_more(table: Table) -> object:
    return table.append([{"id": 99, "name": "later"}])


def _is_dropped(trial: Trial) -> bool:
    namespace, _, name = trial.names["t"].partition(".")
    return name not in [table.name for table in trial.lake.tables(namespace)]


ALL = tuple(range(10))
CHANGES: Mapping[str, Check] = {
    "append": _leaves(*ALL, 10),
    "delete": _leaves(*(one for one in ALL if one != 3)),
    "update": lambda trial: trial.read_names() == {one: "new" if one == 3 else "old" for one in ALL},
    "merge": lambda trial: trial.read_names() == {one: "new" if one in (3, 10) else "old" for one in range(11)},
}
OPERATIONS: Mapping[str, Operation] = {
    "read": Operation(_finds(*ALL)),
    "read, with deleted rows": Operation(_finds(*ALL[3:]), "read", _delete_some),
    "read format version 3, with deletion vectors": Operation(_finds(*ALL[3:]), "read", _delete_some, V3),
    "read an earlier snapshot": Operation(_finds(*ALL), prepare=_append_more),
    "read a tag": Operation(_finds(*ALL), prepare=_append_more),
    "create a namespace": Operation(
        lambda trial: trial.names["new_namespace"] in [one.name for one in trial.lake.namespaces()]
    ),
    "create a table": Operation(_leaves(name="new")),
    "create a table as select": Operation(_leaves(*ALL, name="new")),
    **{name: Operation(check) for name, check in CHANGES.items()},
    **{f"{name} in format version 3": Operation(check, name, properties=V3) for name, check in CHANGES.items()},
    "change two tables in one transaction": Operation(
        lambda trial: trial.read_ids() == trial.read_ids("other") == [*ALL, 10]
    ),
    "add and rename columns": Operation(lambda trial: trial.read_columns() == ["id", "label", "more"]),
    "add a partition field": Operation(lambda trial: trial.lake.table(trial.names["t"]).partition_by == ("name",)),
    "replace a table": Operation(lambda trial: trial.read_columns() == ["x"]),
    "rewrite data files": Operation(_leaves(*ALL[3:]), prepare=_delete_some),
    "create and read a view": Operation(_finds(*ALL)),
    "rename a table": Operation(_leaves(*ALL, name="new")),
    "drop a table": Operation(_is_dropped),
}


class Worker:
    """A process in the environment of a client."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, code: str) -> Any:
        """Run code and return what it found; raise RuntimeError if it fails or takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(SECONDS_MAX, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(code) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline() or '{"error": "the process ended"}')
        except BrokenPipeError as error:
            raise RuntimeError("the process ended") from error
        finally:
            timer.cancel()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["found"]

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def prepare_trial(lake: Lakehouse, catalog: RestCatalog, namespace: str, number: int, operation: Operation) -> Trial:
    """Create the tables of an operation; the names of the trial are those in the code of clients."""
    names = {name: f"{namespace}.{name}_{number}" for name in ("t", "other", "new")}
    for name in ("t", "other"):
        table = lake.create_table(names[name], "id bigint, name string", properties=operation.properties)
        table.append([{"id": one, "name": "old"} for one in ALL])
    names |= {"tag": f"{namespace}-{number}", "new_namespace": f"{namespace}_{number}", "new_name": f"new_{number}"}
    lake.tag(names["tag"])
    names["snapshot"] = str(catalog.load_table(names["t"]).metadata.current_snapshot_id)
    operation.prepare(lake.table(names["t"]))
    return Trial(lake, names)


@contextmanager
def open_client(address: str, client: Client, bucket: RealServer | None) -> Iterator[Worker]:
    """Start a client that has opened the catalog."""
    build = PROGRAMS.get(client.system.title)
    with ExitStack() as stack:
        if build is not None:
            worker = Worker([str(build()[0]), address, TOKEN])
            stack.callback(worker.stop)
        else:
            script = str(Path(__file__).with_name("worker.py"))
            worker = Worker([str(prepare_python(client.system)), script])
            stack.callback(worker.stop)
            places = {
                "jars": ":".join(str(download_artifact(one, "jar")) for one in client.artifacts),
                "bucket_jars": "" if bucket is None else f",{BUCKET_JAR}",
                "trino": "",
            }
            if client.system.title == "Trino":
                assert bucket is not None
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                places["trino"] = stack.enter_context(
                    run_trino(address, TOKEN, bucket, folder, install_trino())
                ).address
            worker.run(client.setup.format(address=address, token=TOKEN, **places))
        yield worker


def try_client(lake: Lakehouse, address: str, key: str, client: Client, bucket: RealServer | None) -> dict[str, str]:
    """Return the result of each operation that the client has: `yes` or the reason of a failure."""
    lake.create_namespace(key)
    catalog = RestCatalog("lake", uri=address, token=TOKEN)
    results: dict[str, str] = {}
    with open_client(address, client, bucket) as worker:
        for number, (name, operation) in enumerate(OPERATIONS.items()):
            code = client.operations.get(operation.code or name)
            if code is None:
                continue
            trial = prepare_trial(lake, catalog, key, number, operation)
            try:
                found = worker.run(
                    code.format(**trial.names, string="string" if key in ("spark", "flink") else "varchar")
                )
                is_right = operation.check(Trial(lake, trial.names, found))
                results[name] = "yes" if is_right else "the rows differ"
            except (RuntimeError, mangrove.MangroveError) as error:
                results[name] = re.sub(r"(file:)?/\S+", "…", " ".join(str(error).split()))[:REASON_CHARACTERS]
            sys.stderr.write(f"{key}: {name}: {results[name]}\n")
    return results


def render_results(results: Mapping[str, Mapping[str, str]], titles: Mapping[str, str]) -> str:
    """Return the table of operations and clients, with the reasons of failures below it."""
    reasons: list[str] = []
    lines = [f"| operation | {' | '.join(titles[key] for key in results)} |", f"|---|{'---|' * len(results)}"]
    for name in OPERATIONS:
        cells = []
        for key, found in results.items():
            result = found.get(name, "–")
            if result not in ("yes", "–"):
                reason = f"{titles[key].split(' ')[0]}: `{result.replace('`', '')}`"
                if reason not in reasons:
                    reasons.append(reason)
                result = f"no ({1 + reasons.index(reason)})"
            cells.append(result)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    listed = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join(["", *lines, "", *listed, *([""] if listed else [])])


def describe_version(client: Client) -> str:
    """Return the title of a client with its version."""
    if client.system.title in PROGRAMS:
        return f"{client.system.title} {PROGRAMS[client.system.title]()[1]}"
    if client.system.title == "Trino":
        return f"Trino {TRINO_VERSION}"
    versions = {**read_versions(prepare_python(client.system), client.system.versions), **client.system.jar_version}
    jars = [f", Iceberg {version}" for name, version in versions.items() if name.startswith("iceberg")]
    return f"{client.system.title} {versions[client.system.versions[0]]}{''.join(jars)}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.iceberg_clients",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("clients", nargs="*", choices=[[], *CLIENTS], metavar="CLIENT")
    parser.add_argument("--store", action="append", choices=STORES, help="local or bucket (default: both)")
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/comparison.md")
    options = parser.parse_args(arguments)
    sections = []
    for store in options.store or STORES:
        clients = {key: CLIENTS[key] for key in options.clients or CLIENTS if store in CLIENTS[key].stores}
        try_clients(clients, store)
    for store, title in STORES.items():
        found = _load_results().get(store, {})
        results = {key: found[key]["results"] for key in CLIENTS if key in found}
        titles = {key: found[key]["title"] for key in results}
        sections.append(f"\n{title}:\n{render_results(results, titles)}")
    sys.stdout.write("\n".join(sections) + "\n")
    if options.write:
        PAGE.write_text(replace_section(PAGE.read_text("utf-8"), "\n".join(sections), BEGIN, END), "utf-8")


def _load_results() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the titles and results of clients by store, of this run and of earlier ones."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def try_clients(clients: Mapping[str, Client], store: str) -> None:
    """Try clients on one store and record their results."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        bucket = None if store == "local" else stack.enter_context(run_seaweedfs(Path(folder)))
        uri = f"{folder}/lake" if bucket is None else f"{bucket.uri}lake"
        lake = mangrove.create(uri, storage_options=None if bucket is None else dict(bucket.options))
        options = None if bucket is None else bucket.options
        address = stack.enter_context(run_mangrove(lake.uri, TOKEN, options=options))
        for key, client in clients.items():
            try:
                tried = {"title": describe_version(client), "results": try_client(lake, address, key, client, bucket)}
                results = _load_results()
                results.setdefault(store, {})[key] = tried
                RESULTS.write_text(json.dumps(results), "utf-8")
            except (NotAvailable, RuntimeError) as error:
                sys.stderr.write(f"{key}: {error}\n")


if __name__ == "__main__":
    main()
