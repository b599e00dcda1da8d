"""A lakehouse on real servers: commits race there, and nothing is lost."""

import threading

import pytest
from tests.support.servers import RealServer

import mangrove
from mangrove.effects import build_effects
from mangrove.layouts.tree.metastore import create_tree, open_tree
from mangrove.metastore import Changes
from mangrove.model.locators import Kind, NamespaceLocator
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.opening import open_store
from mangrove.testing.metastore_contract import commit_objects, make_namespace, make_table

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("name", ["seaweedfs_server", "azurite_server"])
def test_writers_on_a_real_server_lose_nothing(name: str, request: pytest.FixtureRequest) -> None:
    server: RealServer = request.getfixturevalue(name)
    uri = f"{server.uri}lakehouse/"
    metastore = create_tree(build_effects(open_store(uri, server.options)), LakehouseSettings(order=8), Changes("made"))
    commit_objects(metastore, metastore.latest(), make_namespace("sales"))

    def work(worker: int) -> None:
        mine = open_tree(build_effects(open_store(uri, server.options)))
        for number in range(15):
            commit_objects(mine, mine.latest(), make_table("sales", f"w{worker}-{number:02d}"))

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    newest = open_tree(build_effects(open_store(uri, server.options))).latest()
    assert newest.version == 1 + 4 * 15
    assert len(list(newest.children(Kind.TABLE, NamespaceLocator("sales")))) == 4 * 15


@pytest.mark.parametrize("name", ["seaweedfs_server", "azurite_server"])
def test_sql_runs_on_duckdb_over_a_bucket(name: str, request: pytest.FixtureRequest) -> None:
    server: RealServer = request.getfixturevalue(name)
    lake = mangrove.create(f"{server.uri}sql/", storage_options=server.options)
    lake.sql(
        "create namespace s; create table s.t (id bigint not null, name string, primary key (id))", engine="duckdb"
    )
    for first in (0, 10):
        rows = ", ".join(f"({first + number}, 'n{number}')" for number in range(3))
        lake.sql(f"insert into s.t values {rows}", engine="duckdb")
    before = lake.version
    lake.sql("update s.t set name = (select max(name) from s.t) where id >= 10", engine="duckdb")
    lake.sql("delete from s.t where id in (select min(id) from s.t)", engine="duckdb")
    found = lake.sql("select name, count(*) as n from s.t group by name order by name", engine="duckdb")
    assert found.collect() == [("n1", 1), ("n2", 4)]
    assert lake.sql(f"select count(*) from s.t version as of {before}", engine="duckdb").collect() == [(6,)]
