"""The local store and the small cloud do what the reference does, whatever is asked in whatever order."""

import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.s3_server import S3Server

from mangrove.errors import NotFoundError
from mangrove.storage.cache import CachingStore
from mangrove.storage.local import LocalStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri

# No path here is a folder of another, which a disk cannot hold.
PATHS = st.sampled_from(["a", "b-c", "b/a", "b/b", "b/c/d", "b/c/e", "b0", "é", "_0", "_1/x"])
PREFIXES = st.sampled_from(["", "a", "b", "b/", "b/c", "b/c/", "_", "x"])
DATA = st.binary(max_size=20)
Answers = list[bytes | None]


class StoresAgree(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.reference = MemoryStore()
        self.folder = tempfile.mkdtemp()
        self.server = S3Server()
        self.server.__enter__()
        trusting = {**self.server.options, "unsorted_listing": "false"}
        self.stores: list[Store] = [
            LocalStore(parse_root_uri(self.folder + "/first")),
            LocalStore(parse_root_uri(self.folder + "/second"), unnamed_files=False),
            CachingStore(MemoryStore(), lambda _: False, 1_000),
            open_store("s3://bucket/one", self.server.options),
            open_store("s3://bucket/two", trusting),
        ]

    def teardown(self) -> None:
        self.server.__exit__(None, None, None)
        shutil.rmtree(self.folder)

    @rule(path=PATHS, data=DATA)
    def put(self, path: str, data: bytes) -> None:
        for store in [self.reference, *self.stores]:
            store.put(path, data)

    @rule(objects=st.dictionaries(PATHS, DATA, max_size=4))
    def put_many(self, objects: dict[str, bytes]) -> None:
        for store in [self.reference, *self.stores]:
            store.put_many(objects)

    @rule(path=PATHS, number=st.integers(0, 1_000))
    def create(self, path: str, number: int) -> None:
        data = f"created {number}".encode()
        won = self.reference.create(path, data)
        if not won and self.reference.read(path) == data:
            # Bytes that a rival wrote too: the port leaves the answer open.
            return
        assert [store.create(path, data) for store in self.stores] == [won] * len(self.stores)

    @rule(paths=st.lists(PATHS, max_size=4))
    def delete(self, paths: list[str]) -> None:
        for store in [self.reference, *self.stores]:
            store.delete_many(paths)

    @rule(path=PATHS, start=st.integers(0, 25), length=st.none() | st.integers(0, 25))
    def read_a_range(self, path: str, start: int, length: int | None) -> None:
        answers: Answers = []
        for store in [self.reference, *self.stores]:
            try:
                answers.append(store.read(path, start, length))
            except NotFoundError:
                answers.append(None)
        assert answers == answers[:1] * len(answers)

    @rule(prefix=PREFIXES, start_after=st.just("") | PATHS | PREFIXES, delimiter=st.booleans())
    def list(self, prefix: str, start_after: str, delimiter: bool) -> None:
        expected = [entry.path for entry in self.reference.list(prefix, start_after=start_after, delimiter=delimiter)]
        for store in self.stores:
            shown = store.list(prefix, start_after=start_after, delimiter=delimiter)
            assert [entry.path for entry in shown] == expected

    @precondition(lambda self: self.reference.exists("a"))
    @rule()
    def look(self) -> None:
        assert {store.size("a") for store in self.stores} == {self.reference.size("a")}

    @invariant()
    def all_hold_the_same(self) -> None:
        paths = [entry.path for entry in self.reference.list()]
        held = self.reference.read_many(paths)
        assert all(store.read_many(paths) == held for store in self.stores)


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(TestStoresAgree.settings, max_examples=25, stateful_step_count=20)
