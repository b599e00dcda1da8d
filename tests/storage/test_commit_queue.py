"""The queue of the processes of one machine, in a folder."""

import errno
import fcntl
import multiprocessing
import os
import select
import signal
import stat
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from mangrove.storage import commit_queue
from mangrove.storage.commit_queue import MachineQueue, open_queue
from mangrove.storage.opening import open_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mangrove" / "queue"


@pytest.fixture
def queue(folder: Path) -> MachineQueue:
    return MachineQueue(lambda: folder)


def test_a_queue_that_was_never_used_is_empty_and_creates_nothing(queue: MachineQueue, folder: Path) -> None:
    assert not queue.is_active(0)
    assert not queue.contains("a.intent")
    assert (queue.list(), queue.read("a.intent"), queue.read_version(1)) == ([], None, None)
    assert not folder.parent.exists()


def test_entries_are_listed_in_the_order_of_their_names_until_they_are_removed(queue: MachineQueue) -> None:
    assert queue.put("2.intent", b"two")
    assert queue.put("1.intent", b"one")
    queue.put_version(7, b"seven", is_group=False)
    assert queue.list() == ["1.intent", "2.intent"]
    assert queue.read("2.intent") == b"two"
    queue.remove(["1.intent", "never there.intent"])
    assert (queue.contains("1.intent"), queue.contains("2.intent")) == (False, True)


def test_only_one_handle_has_the_lock(queue: MachineQueue, folder: Path) -> None:
    other = MachineQueue(lambda: folder)
    assert queue.put("1.intent", b"")
    assert queue.try_lock()
    assert not other.try_lock()
    queue.unlock()
    assert other.try_lock()


def _lock_and_die(folder: Path) -> None:
    assert MachineQueue(lambda: folder).try_lock()
    os._exit(9)


def test_the_lock_of_a_process_that_died_is_free(queue: MachineQueue, folder: Path) -> None:
    assert queue.put("1.intent", b"")
    process = multiprocessing.get_context("spawn").Process(target=_lock_and_die, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert queue.try_lock()


def _put_and_die(folder: Path) -> None:
    assert MachineQueue(lambda: folder).put("1.intent", b"one")
    os._exit(9)


def test_an_entry_of_a_process_that_died_is_not_read_and_removed(queue: MachineQueue, folder: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_put_and_die, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert queue.list() == ["1.intent"]
    assert queue.read("1.intent") is None
    assert queue.list() == []


def _put_lock_fork_and_die(folder: Path, lives: Connection) -> None:
    queue = MachineQueue(lambda: folder)
    assert queue.put("1.intent", b"one")
    assert queue.try_lock()
    if os.fork() == 0:
        lives.send("forked")
        lives.poll(None)
    os._exit(9)


def test_a_child_does_not_keep_the_locks_of_a_process_that_died(queue: MachineQueue, folder: Path) -> None:
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_put_lock_fork_and_die, args=(folder, there))
    process.start()
    assert here.recv() == "forked"
    process.join()
    assert queue.read("1.intent") is None
    assert queue.try_lock()
    here.close()


def test_an_entry_can_be_put_again_by_its_process(queue: MachineQueue, folder: Path) -> None:
    other = MachineQueue(lambda: folder)
    assert queue.put("1.intent", b"one")
    other.remove(["1.intent"])
    assert not queue.contains("1.intent")
    assert queue.put("1.intent", b"one")
    assert other.read("1.intent") == b"one"


def test_a_folder_without_room_makes_the_queue_unusable_and_leaves_nothing(
    queue: MachineQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "write", fail)
    assert not queue.put("1.intent", b"one")
    queue.put_version(1, b"one", is_group=False)
    assert list(folder.iterdir()) == []


def ignore(_: float) -> None:
    raise AssertionError("the process did not sleep until it was woken")


def test_a_process_whose_entry_is_removed_is_woken(queue: MachineQueue, folder: Path) -> None:
    assert queue.put("1.intent", b"one")
    MachineQueue(lambda: folder).remove(["1.intent"])
    queue.wait("1.intent", 600.0, ignore)
    assert not queue.contains("1.intent")
    queue.remove(["1.intent"])
    assert list(folder.iterdir()) == []


def test_the_owner_of_the_lock_wakes_the_processes_of_removed_entries_after_the_next_owner(
    queue: MachineQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = MachineQueue(lambda: folder)
    others = [MachineQueue(lambda: folder) for _ in range(2)]
    for number, other in enumerate((*others, queue)):
        assert other.put(f"{number}.intent", b"")
    woken: list[str] = []
    wake = leader._wake

    def record(name: str) -> bool:
        woken.append(name)
        return wake(name)

    monkeypatch.setattr(leader, "_wake", record)
    assert leader.try_lock()
    leader.remove(["0.intent", "1.intent"])
    assert (woken, queue.list()) == ([], ["2.intent"])
    leader.unlock()
    assert woken == ["2.intent", "0.intent", "1.intent"]
    assert [os.read(other._entries[f"{number}.intent"][0], 64) for number, other in enumerate(others)] == [b"1", b"1"]


def test_the_lock_is_left_to_the_process_that_has_waited_longest_and_lives(queue: MachineQueue, folder: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_put_and_die, args=(folder,))
    process.start()
    process.join()
    leader, later = MachineQueue(lambda: folder), MachineQueue(lambda: folder)
    assert leader.put("0.intent", b"leads")
    assert later.put("3.intent", b"three")
    assert queue.put("2.intent", b"two")
    assert leader.try_lock()
    leader.unlock()
    queue.wait("2.intent", 600.0, ignore)
    assert queue.try_lock()
    for other, name in ((leader, "0.intent"), (later, "3.intent")):
        assert not select.select([other._entries[name][0]], [], [], 0)[0]


def test_a_process_that_does_not_wake_up_leaves_the_lock_to_the_next_one(queue: MachineQueue, folder: Path) -> None:
    suspended, leader = MachineQueue(lambda: folder), MachineQueue(lambda: folder)
    assert suspended.put("1.intent", b"")
    assert queue.put("2.intent", b"two")
    for _ in range(2):
        assert leader.try_lock()
        leader.unlock()
    for other, name in ((suspended, "1.intent"), (queue, "2.intent")):
        assert os.read(other._entries[name][0], 64) == b"1"


def _die_of_signals_and_wake(folder: Path, name: str) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    write = os.write

    def stop_waiting_first(descriptor: int, data: bytes) -> int:
        waiting.remove([name])
        return write(descriptor, data)

    waiting, leader = MachineQueue(lambda: folder), MachineQueue(lambda: folder)
    assert waiting.put(name, b"")
    pytest.MonkeyPatch().setattr(os, "write", stop_waiting_first)
    leader.unlock()
    os._exit(0)


def test_a_process_that_dies_of_broken_pipes_survives_another_one_that_stops_waiting(folder: Path) -> None:
    args = (folder, "1.intent")
    process = multiprocessing.get_context("spawn").Process(target=_die_of_signals_and_wake, args=args)
    process.start()
    process.join()
    assert process.exitcode == 0


def test_a_lock_that_an_interrupted_thread_has_left_is_used_again(queue: MachineQueue, folder: Path) -> None:
    assert queue.put("1.intent", b"")
    assert queue.try_lock()
    assert queue.try_lock()
    queue.unlock()
    assert MachineQueue(lambda: folder).try_lock()


def test_a_thread_that_is_interrupted_while_it_takes_the_lock_does_not_keep_it(
    queue: MachineQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(descriptor: int, kind: int) -> None:
        lock(descriptor, kind)
        raise KeyboardInterrupt

    assert queue.put("1.intent", b"")
    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", interrupt)
    with pytest.raises(KeyboardInterrupt):
        queue.try_lock()
    monkeypatch.undo()
    other = MachineQueue(lambda: folder)
    assert other.try_lock()
    other.unlock()
    assert queue.try_lock()


def test_a_process_without_an_entry_pauses(queue: MachineQueue) -> None:
    paused: list[float] = []
    queue.wait("1.intent", 0.5, paused.append)
    assert paused == [0.5]


def test_only_one_process_maintains_tables(queue: MachineQueue, folder: Path) -> None:
    other, third = MachineQueue(lambda: folder), MachineQueue(lambda: folder)
    assert queue.try_lock_maintenance(0)
    assert not folder.exists()
    assert queue.put("1.intent", b"")
    assert queue.try_lock_maintenance(0)
    began_at_millis = (folder / "maintenance").stat().st_mtime_ns // 1_000_000
    assert not other.try_lock_maintenance(began_at_millis)
    assert third.try_lock_maintenance(began_at_millis + 60_000)  # the first one may be suspended
    third.unlock_maintenance()
    assert not other.try_lock_maintenance(began_at_millis)
    queue.unlock_maintenance()
    assert other.try_lock_maintenance(began_at_millis)


def test_a_version_that_is_not_complete_is_not_read(queue: MachineQueue, folder: Path) -> None:
    assert queue.put("1.intent", b"")
    queue.put_version(1, b"a version", is_group=False)
    (file,) = folder.glob("*.version")
    file.write_bytes(file.read_bytes()[:-1])
    assert queue.read_version(1) is None


def test_a_version_that_needs_much_memory_is_not_shown(queue: MachineQueue, folder: Path) -> None:
    assert queue.put("1.intent", b"")
    assert queue.try_lock()
    os.utime(folder / "lock", (0, 0))
    queue.put_version(1, b"v" * 1_000_000, is_group=False)
    queue.put_version(65, b"v" * 2_000_000, is_group=True)
    assert (queue.read_version(1), queue.read_version(65)) == (None, None)
    assert list(folder.glob("*.version")) == []
    assert queue.is_active((folder / "lock").stat().st_mtime_ns // 1_000_000)
    assert (folder / "lock").stat().st_mtime > 0


def test_a_group_makes_the_queue_active_for_seconds(queue: MachineQueue, folder: Path) -> None:
    assert queue.put("1.intent", b"")
    assert queue.try_lock()
    os.utime(folder / "lock", (0, 0))
    queue.put_version(1, b"", is_group=False)
    written_at_millis = (folder / "1.version").stat().st_mtime_ns // 1_000_000
    assert not queue.is_active(written_at_millis)
    queue.put_version(2, b"", is_group=True)
    assert queue.is_active(written_at_millis)
    assert not queue.is_active(written_at_millis + 60_000)
    assert not queue.is_active(written_at_millis - 60_000)


def test_old_versions_are_removed(queue: MachineQueue, folder: Path) -> None:
    assert queue.put("1.intent", b"")
    for version in range(100):
        queue.put_version(version, b"%d" % version, is_group=False)
    assert queue.read_version(99) == b"99"
    assert queue.read_version(0) is None
    assert len([*folder.glob("*.version")]) == commit_queue._VERSIONS_MAX


def test_only_the_user_can_use_the_folder(queue: MachineQueue, folder: Path) -> None:
    assert queue.put("1.intent", b"")
    assert {stat.S_IMODE(one.stat().st_mode) for one in (folder.parent, folder)} == {0o700}


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o702])
def test_a_folder_that_others_can_use_is_not_used(queue: MachineQueue, folder: Path, mode: int) -> None:
    folder.mkdir(parents=True)
    folder.parent.chmod(mode)
    assert not queue.put("1.intent", b"")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("mode", "is_used"), [(0o777, False), (0o770, False), (0o1777, True), (0o755, True)])
def test_a_folder_that_others_can_replace_is_not_used(
    queue: MachineQueue, folder: Path, mode: int, is_used: bool
) -> None:
    folder.parent.parent.chmod(mode)
    assert queue.put("1.intent", b"") is is_used
    assert folder.exists() is is_used


@pytest.mark.parametrize("kind", ["of another user", "open to others", "replaceable", "replaceable by its owner"])
def test_nothing_in_a_folder_that_others_can_write_to_is_used(
    queue: MachineQueue, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    other = MachineQueue(lambda: folder)
    assert other.put("1.intent", b"one")
    assert other.try_lock()
    other.put_version(1, b"forged", is_group=True)
    now_millis = (folder / "lock").stat().st_mtime_ns // 1_000_000
    assert queue.is_active(now_millis)
    assert queue.read_version(1) == b"forged"
    if kind == "of another user":
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
    elif kind == "open to others":
        folder.chmod(0o755)
    elif kind == "replaceable":
        folder.parent.parent.chmod(0o777)
    else:
        base, stat_file = str(folder.parent.parent), os.stat
        theirs = os.stat_result([*stat_file(base)[:4], os.getuid() + 1, *stat_file(base)[5:10]])
        monkeypatch.setattr(os, "stat", lambda *of, **how: theirs if of[0] == base else stat_file(*of, **how))
    assert not queue.is_active(now_millis)
    assert queue.read_version(1) is None
    assert not queue.put("2.intent", b"two")
    (folder / "maintenance").symlink_to(folder / "made through a link")
    assert queue.try_lock_maintenance(now_millis)
    assert not (folder / "made through a link").exists()


def test_the_first_use_of_a_queue_removes_those_that_were_not_used_for_a_long_time(
    queue: MachineQueue, folder: Path
) -> None:
    old, recent = MachineQueue(lambda: folder.with_name("old")), MachineQueue(lambda: folder.with_name("recent"))
    for other in (old, recent):
        assert other.put("1.intent", b"one")
        other.put_version(1, b"one", is_group=True)
    os.utime(folder.with_name("old"), (0, 0))
    assert queue.put("1.intent", b"")
    assert sorted(one.name for one in folder.parent.iterdir()) == ["queue", "recent"]
    assert recent.contains("1.intent")
    assert not old.contains("1.intent")
    assert old.put("1.intent", b"one")
    assert old.list() == ["1.intent"]


def test_a_link_to_another_folder_is_not_used(queue: MachineQueue, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(0o700)
    folder.parent.mkdir(0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert not queue.put("1.intent", b"")


def test_a_file_where_the_folder_should_be_makes_the_queue_unusable(queue: MachineQueue, folder: Path) -> None:
    folder.parent.parent.mkdir(exist_ok=True)
    folder.parent.write_bytes(b"")
    assert not queue.put("1.intent", b"")
    assert not queue.try_lock()


def test_each_lakehouse_has_a_queue_of_its_own_and_one_in_memory_has_none() -> None:
    first, second = open_queue(open_store("file:///a/")), open_queue(open_store("file:///b/"))
    assert first is not None
    assert second is not None
    assert Path(first._folder).parent == Path(second._folder).parent
    assert first._folder != second._folder
    assert open_queue(open_store("memory://a/")) is None


def test_two_storages_with_the_same_uri_have_queues_of_their_own(tmp_path: Path) -> None:
    servers = [
        open_store("s3://bucket/lake", {"endpoint": f"http://127.0.0.1:{port}", "skip_signature": "true"})
        for port in (9000, 9001)
    ]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "one")
    before = open_queue(open_store(link))
    assert before is not None
    first = before._folder
    link.unlink()
    link.symlink_to(tmp_path / "two")
    queues = [*map(open_queue, servers), open_queue(open_store(link))]
    found = {one._folder for one in queues if one is not None}
    assert len(found | {first}) == 4


@pytest.mark.parametrize(
    ("uri", "option"),
    [
        ("s3://bucket/lake", "endpoint"),
        ("s3://bucket/lake", "endpoint_url"),
        ("s3://bucket/lake", "aws_endpoint"),
        ("s3://bucket/lake", "AWS_ENDPOINT_URL"),
        ("gs://bucket/lake", "google_base_url"),
        ("az://bucket/lake", "azure_endpoint"),
        ("az://bucket/lake", "azure_storage_endpoint"),
        ("az://bucket/lake", "azure_storage_account_name"),
    ],
)
def test_two_servers_have_queues_of_their_own_by_whichever_name_an_option_names_them(uri: str, option: str) -> None:
    account = {} if option.endswith("name") or not uri.startswith("az:") else {"account_name": "one"}
    queues = [
        open_queue(open_store(uri, {**account, option: value, "skip_signature": "true"}))
        for value in ("http://127.0.0.1:9000", "http://127.0.0.1:9001")
    ]
    assert len({one._folder for one in queues if one is not None}) == 2


@pytest.mark.parametrize(
    ("uri", "variable"),
    [
        ("s3://bucket/lake", "AWS_ENDPOINT_URL_S3"),
        ("gs://bucket/lake", "GOOGLE_BASE_URL"),
        ("az://bucket/lake", "AZURE_STORAGE_ENDPOINT"),
        ("az://bucket/lake", "AZURE_ENDPOINT"),
    ],
)
def test_two_servers_have_queues_of_their_own_if_the_environment_names_them(
    uri: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"skip_signature": "true"} | ({"account_name": "one"} if uri.startswith("az:") else {})
    folders = set()
    for value in ("http://127.0.0.1:9000", "http://127.0.0.1:9001"):
        monkeypatch.setenv(variable, value)
        queue = open_queue(open_store(uri, options))
        assert queue is not None
        folders.add(queue._folder)
    assert len(folders) == 2


def test_a_machine_without_a_folder_for_temporary_files_has_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(commit_queue, "_MEMORY_FOLDER", Path("/never/there"))
    monkeypatch.setattr(tempfile, "gettempdir", fail)
    assert open_queue(open_store("file:///a/")) is None
