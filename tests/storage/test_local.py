import errno
import os
import shutil
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.process_race import race_processes

from mangrove.errors import InvalidInputError, NotFoundError, StorageError
from mangrove.storage.local import LocalStore
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.probe import probe_creates
from mangrove.storage.uri import parse_root_uri
from mangrove.testing.store_contract import REFUSED_PATHS, StoreContract, list_paths

CRASHES = Path(__file__).with_name("crashes.py")


def local(folder: Path, *, unnamed_files: bool = True) -> LocalStore:
    return LocalStore(parse_root_uri(folder), unnamed_files=unnamed_files)


class TestLocalStore(StoreContract):
    folders_hide_objects = True

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return local(tmp_path / "not" / "yet" / "there")


class TestLocalStoreWithoutUnnamedFiles(StoreContract):
    folders_hide_objects = True

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return local(tmp_path, unnamed_files=False)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return everything below a folder, links not followed."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def walled(tmp_path: Path) -> Path:
    """A root whose links lead outside: to a folder, to a file, to nothing, and to a folder inside."""
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (root / "inside" / "kept").write_bytes(b"kept")
    (root / "to-folder").symlink_to(tmp_path / "outside")
    (root / "to-file").symlink_to(tmp_path / "outside" / "secret")
    (root / "to-nothing").symlink_to(tmp_path / "outside" / "new")
    (root / "inside" / "up").symlink_to("../../outside")
    return root


@pytest.mark.parametrize(
    "path", ["to-folder/secret", "to-folder/new", "to-file", "to-nothing", "inside/up/secret", "inside/up/deep/x"]
)
def test_a_link_is_never_followed_and_nothing_is_touched(walled: Path, path: str) -> None:
    store = local(walled)
    before = tree(walled.parent)
    for ask in (store.read, store.size, store.exists):
        with pytest.raises(StorageError, match="symbolic link"):
            ask(path)
    with pytest.raises(StorageError, match="link"):
        store.create(path, b"x")
    assert tree(walled.parent) == before


@pytest.mark.parametrize("path", ["to-folder/new", "to-folder/deep/new", "inside/up/new", "inside/up/a/b"])
def test_nothing_is_written_or_deleted_through_a_linked_folder(walled: Path, path: str) -> None:
    store = local(walled)
    before = tree(walled.parent)
    with pytest.raises(StorageError, match="symbolic link"):
        store.put(path, b"x")
    with pytest.raises(StorageError, match="symbolic link"):
        store.put_many({path: b"x"})
    with pytest.raises(StorageError, match="symbolic link"):
        store.delete_many([path])
    assert tree(walled.parent) == before


def test_a_put_at_a_link_replaces_the_link_and_leaves_its_target(walled: Path) -> None:
    local(walled).put("to-file", b"mine")
    assert (walled.parent / "outside" / "secret").read_bytes() == b"secret"
    assert local(walled).read("to-file") == b"mine"


def test_links_are_not_listed(walled: Path) -> None:
    assert list_paths(local(walled)) == ["inside/kept"]
    with pytest.raises(StorageError, match="symbolic link"):
        list_paths(local(walled), "to-folder/")


def test_a_folder_that_becomes_a_link_after_it_was_used_is_refused(tmp_path: Path) -> None:
    store = local(tmp_path / "root")
    store.put("a/b", b"1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "a").rename(tmp_path / "elsewhere")
    (tmp_path / "root" / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="symbolic link"):
        store.put("a/c", b"2")
    assert tree(tmp_path / "outside") == {}


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    local(tmp_path / "link").put("a/b", b"1")
    assert tree(tmp_path / "real") == {"a": None, "a/b": b"1"}


def read_something(store: LocalStore) -> None:
    store.read_many(["first"])


def list_something(store: LocalStore) -> None:
    assert list_paths(store) == []


def write_something(store: LocalStore) -> None:
    store.put("first", b"1")


@pytest.mark.parametrize("first", [read_something, list_something, write_something])
@pytest.mark.parametrize("made_anew", [False, True])
def test_another_folder_at_the_place_of_the_root_is_never_touched(
    tmp_path: Path, first: Callable[[LocalStore], None], made_anew: bool
) -> None:
    (tmp_path / "root").mkdir()
    store = local(tmp_path / "root")
    first(store)
    (tmp_path / "root").rename(tmp_path / "moved")
    if made_anew:
        local(tmp_path / "root").put("a/first", b"of another")
    before = tree(tmp_path)
    for ask in (
        lambda: store.put("a/b", b"2"),
        lambda: store.put_many({"a/b": b"2"}),
        lambda: store.create("a/b", b"2"),
        lambda: store.delete_many(["a/first"]),
        lambda: store.read("a/first"),
        lambda: store.size("a/first"),
        lambda: [*store.list()],
    ):
        with pytest.raises(StorageError, match="was moved, deleted or recreated since it was opened"):
            ask()
    assert tree(tmp_path) == before


def test_a_recreated_root_is_detected_as_another_folder(tmp_path: Path) -> None:
    store = local(tmp_path / "root")
    store.put("a", b"1")
    for _ in range(20):
        # Many file systems give the number of the last folder that went to the next that comes.
        shutil.rmtree(tmp_path / "root")
        (tmp_path / "root").mkdir()
        with pytest.raises(StorageError, match="recreated"):
            store.put("b", b"2")
    assert tree(tmp_path) == {"root": None}


def test_a_root_created_later_by_another_store_is_used(tmp_path: Path) -> None:
    store = local(tmp_path / "root")
    assert list_paths(store) == []
    local(tmp_path / "root").put("a", b"1")
    assert store.read("a") == b"1"
    store.put("b", b"2")
    assert tree(tmp_path / "root") == {"a": b"1", "b": b"2"}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only there a process can see what it has open")
def test_a_deleted_store_closes_its_root(tmp_path: Path) -> None:
    def on_root() -> int:
        return sum(os.path.realpath(entry) == str(tmp_path) for entry in Path("/proc/self/fd").iterdir())

    store = local(tmp_path)
    store.put("a", b"1")
    assert (store.read("a"), on_root()) == (b"1", 1)
    del store
    assert on_root() == 0


@pytest.mark.parametrize("path", REFUSED_PATHS, ids=lambda path: repr(path[:20]))
def test_an_invalid_path_creates_no_file_and_no_folder(tmp_path: Path, path: str) -> None:
    store = local(tmp_path / "root")
    for ask in (lambda: store.put(path, b"x"), lambda: store.create(path, b"x"), lambda: store.put_many({path: b"x"})):
        with pytest.raises(InvalidInputError):
            ask()
    assert tree(tmp_path) == {}


def test_a_path_below_an_object_cannot_be_created(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.put("a", b"1")
    for ask in (lambda: store.put("a/b", b"2"), lambda: store.create("a/b", b"2"), lambda: store.put("a/b/c", b"2")):
        with pytest.raises(StorageError, match="is an object"):
            ask()
    assert tree(tmp_path) == {"a": b"1"}


def test_a_folder_cannot_become_an_object(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.put("a/b", b"1")
    with pytest.raises(StorageError, match="folder"):
        store.put("a", b"2")
    with pytest.raises(StorageError, match="folder"):
        store.put_many({"a": b"2"})
    with pytest.raises(StorageError, match="folder"):
        store.create("a", b"2")
    store.delete_many(["a"])
    assert tree(tmp_path) == {"a": None, "a/b": b"1"}


def test_a_pipe_or_socket_is_not_an_object(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    store = local(tmp_path)
    assert not store.exists("pipe")
    with pytest.raises(NotFoundError):
        store.read("pipe")
    assert list_paths(store) == []


def test_temporary_files_are_found_but_not_listed(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.put("a/b", b"1")
    left = tmp_path / "a" / ".mangrove-tmp-0011"
    left.write_bytes(b"half")
    os.utime(left, ns=(0, 5_000_000_000))
    assert list_paths(store) == ["a/b"]
    assert [*store.leftovers()] == [ObjectInfo("a/.mangrove-tmp-0011", 4, 5_000)]
    store.delete_leftovers(found.path for found in store.leftovers())
    assert tree(tmp_path) == {"a": None, "a/b": b"1"}


def test_only_temporary_files_are_deleted_as_temporary(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.put("a/b", b"1")
    with pytest.raises(InvalidInputError, match="not a temporary file"):
        store.delete_leftovers(["a/b"])
    with pytest.raises(InvalidInputError):
        store.delete_leftovers(["../.mangrove-tmp-1"])
    assert store.exists("a/b")


def test_files_that_no_path_can_name_are_not_listed(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.put("fine", b"1")
    (tmp_path / "with\nnewline").write_bytes(b"")
    (tmp_path / "back\\slash").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_bytes(b"")
    assert list_paths(store) == ["fine"]


def test_the_permissions_of_a_new_file_follow_the_umask(tmp_path: Path) -> None:
    store = local(tmp_path)
    before = os.umask(0o027)
    try:
        store.put("put", b"")
        store.create("created", b"")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("put", "created")] == [0o640, 0o640]


class Calls:
    """Counts the system calls that matter, and makes one of them fail if asked to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: Counter[str] = Counter()
        self.fail_at: str | None = None
        for name in ("open", "write", "fsync", "link", "rename", "unlink", "stat", "mkdir"):
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **named: object) -> object:
            self.made[name] += 1
            if self.fail_at == name:
                raise OSError(errno.EIO, "Input/output error")
            return call(*arguments, **named)

        return counted


def test_create_and_put_make_the_minimum_of_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = local(tmp_path)
    store.put("warm", b"")
    calls = Calls(monkeypatch)
    assert store.create("new", b"x")
    created = dict(calls.made)
    calls.made.clear()
    store.put("new", b"y")
    # One look in each is at the root: is it still the folder that the store stands on?
    assert created == {"open": 2, "stat": 2, "write": 1, "fsync": 2, "link": 1}
    assert calls.made == {"open": 2, "stat": 1, "write": 1, "fsync": 2, "rename": 1}


def test_many_puts_fsync_their_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = local(tmp_path)
    store.put("a/warm", b"")
    calls = Calls(monkeypatch)
    store.put_many({f"a/{number}": b"x" for number in range(20)})
    assert (calls.made["fsync"], calls.made["rename"]) == (21, 20)


def test_every_new_folder_is_fsynced_into_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = local(tmp_path)
    store.put("warm", b"")
    (tmp_path / "made-by-another").mkdir()
    calls = Calls(monkeypatch)
    store.put("a/b/c", b"x")
    assert (calls.made["mkdir"], calls.made["fsync"]) == (2, 4)
    calls.made.clear()
    store.put("made-by-another/x", b"x")
    assert calls.made["fsync"] == 3
    calls.made.clear()
    store.put("made-by-another/y", b"x")
    assert calls.made["fsync"] == 2


@pytest.mark.parametrize("call", ["write", "fsync", "link", "rename"])
@pytest.mark.parametrize("unnamed_files", [True, False])
def test_a_write_that_fails_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, unnamed_files: bool
) -> None:
    store = local(tmp_path, unnamed_files=unnamed_files)
    store.put("old", b"old")
    calls = Calls(monkeypatch)
    calls.fail_at = call
    failures = []
    for ask in (
        lambda: store.put("old", b"new"),
        lambda: store.create("new", b"new"),
        lambda: store.put_many({"old": b"new"}),
    ):
        try:
            ask()
        except StorageError as error:
            failures.append(str(error))
    calls.fail_at = None
    assert len(failures) == {"write": 3, "fsync": 3, "link": 1, "rename": 2}[call]
    assert all("Input/output error" in failure for failure in failures)
    assert [*store.leftovers()] == []


def test_named_temporary_files_are_used_if_unnamed_ones_are_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def failing_open(path: str, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real_open(path, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", failing_open)
    store = local(tmp_path)
    assert store.create("a", b"1")
    assert not store.create("a", b"2")
    assert tree(tmp_path) == {"a": b"1"}


def test_a_folder_without_rights_gives_a_storage_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing_open(*arguments: object, **named: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    store = local(tmp_path)
    monkeypatch.setattr(os, "open", failing_open)
    for ask in (lambda: store.read("a"), lambda: store.put("a", b""), lambda: store.size("a"), lambda: [*store.list()]):
        with pytest.raises(StorageError, match="give this user permissions"):
            ask()


def test_opening_a_store_imports_no_arrow() -> None:
    source = "import sys, mangrove.storage.opening as o; print({'pyarrow'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", source], text=True).strip() == "set()"


@pytest.mark.parametrize("unnamed_files", [True, False])
def test_exactly_one_of_32_threads_wins_each_create(tmp_path: Path, unnamed_files: bool) -> None:
    probed = probe_creates(local(tmp_path, unnamed_files=unnamed_files), threads=32, keys=200)
    assert (probed.unfair, probed.misread) == ((), ())
    assert tree(tmp_path) == {}


@pytest.mark.slow
def test_exactly_one_of_8_processes_wins_each_create(tmp_path: Path) -> None:
    probed = race_processes(parse_root_uri(tmp_path).text, {}, processes=8, keys=500)
    assert (probed.unfair, probed.misread) == ((), ())
    assert [*local(tmp_path).leftovers()] == []


def test_a_writer_killed_at_any_system_call_leaves_nothing_or_the_whole_object(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(CRASHES), "calls", str(tmp_path)], check=True, timeout=300)


@pytest.mark.slow
def test_a_writer_killed_at_random_times_leaves_a_complete_object_or_none(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(CRASHES), "moments", str(tmp_path)], check=True, timeout=300)


def test_a_range_is_read_into_memory_of_the_caller_and_never_through_a_link(walled: Path) -> None:
    store = local(walled)
    store.put("inside/numbers", b"0123456789")
    buffer = bytearray(b"....")
    assert store.read_into("inside/numbers", 2, memoryview(buffer)) == 4
    assert buffer == b"2345"
    assert store.read_into("inside/numbers", 8, memoryview(buffer)) == 2
    assert buffer == b"8945"
    for path in ("missing", "to-file", "to-folder/secret", "inside/up/secret", "inside"):
        with pytest.raises((NotFoundError, StorageError)):
            store.read_into(path, 0, memoryview(buffer))
    for path in REFUSED_PATHS:
        with pytest.raises(InvalidInputError):
            store.read_into(path, 0, memoryview(buffer))
    with pytest.raises(InvalidInputError):
        store.read_into("inside/numbers", -1, memoryview(buffer))
    assert buffer == b"8945"
