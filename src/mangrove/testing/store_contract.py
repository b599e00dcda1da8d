"""The contract tests for stores.

Derive a class from `StoreContract` in a test module, and give it a fixture
`store` that returns an empty store:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self) -> Store:
            return MyStore(...)
"""

import pytest

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.storage.port import ObjectInfo, Prefix, Store
from mangrove.storage.probe import probe_creates

__all__ = ["REFUSED_PATHS", "StoreContract", "list_paths"]

REFUSED_PATHS = (
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "../x",
    "a/../b",
    "a/./b",
    "a/..",
    "a\0b",
    "a\nb",
    "a\x7fb",
    "a\\b",
    "\ud800",
    "x" * 10_240,
    "/".join(["x" * 100] * 11),
    "x" * 256,
    "é" * 128,
    ".mangrove-tmp-1",
    "a/.mangrove-tmp-1",
)

_TRICKY_PATHS = (
    "plain",
    "with space",
    "marks~!$&'()+,;=@",
    "percent%20and%2Fmore",
    "hash#and?question",
    "star*[x]{y}|z^`",
    'quote"and<angle>',
    "ünïcödé/日本語/𝄞",
    ".hidden/..double/...",
    "a=1/b=x%3Dy",
)

_ORDERED = ("a", "a-b/x", "a.b", "a/b", "a/b-c", "a/b/c", "a0", "b", "é", "�", "𝄞")


def list_paths(store: Store, prefix: str = "", start_after: str = "") -> list[str]:
    """Return the listed paths in order."""
    return [entry.path for entry in store.list(prefix, start_after=start_after)]


class StoreContract:
    """Tests of the contract of `mangrove.storage.port.Store`."""

    folders_hide_objects = False
    """Whether a path cannot be both an object and a folder, as on a disk."""

    @pytest.fixture
    def store(self) -> Store:
        """Return an empty store; override this."""
        pytest.fail("override the fixture `store` in the derived class")

    def test_the_root_ends_in_one_slash(self, store: Store) -> None:
        """Paths are appended to it as they are."""
        assert store.uri.endswith("/")
        assert not store.uri.endswith("//")

    def test_a_put_object_is_read(self, store: Store) -> None:
        """Also the empty object, which some servers treat as a folder."""
        for path, data in {"one": b"1", "folder/two": b"\x00\xff" * 700, "empty": b""}.items():
            store.put(path, data)
            assert store.read(path) == data
            assert store.size(path) == len(data)
            assert store.exists(path)

    def test_a_second_put_replaces_the_first(self, store: Store) -> None:
        """The second object is shorter, so that a remaining tail is detected."""
        store.put("a/b", b"long bytes")
        store.put("a/b", b"short")
        assert store.read("a/b") == b"short"

    def test_a_missing_object_is_not_found(self, store: Store) -> None:
        """Also below a folder that exists."""
        store.put("a/b", b"")
        for path in ("b", "a/c", "x/y/z"):
            with pytest.raises(NotFoundError, match=path):
                store.read(path)
            assert store.size(path) is None
            assert not store.exists(path)

    def test_a_folder_reads_as_missing(self, store: Store) -> None:
        """There are no folders in a store, only paths that share a prefix."""
        store.put("a/b/c", b"1")
        for path in ("a", "a/b"):
            assert not store.exists(path)
            assert store.size(path) is None
            assert store.read_many([path]) == [None]
            with pytest.raises(NotFoundError):
                store.read(path)

    def test_a_path_below_an_object_is_not_found(self, store: Store) -> None:
        """A disk reports another error here than for a missing file."""
        store.put("a", b"1")
        assert not store.exists("a/b")
        assert store.read_many(["a/b", "a"]) == [None, b"1"]
        assert list_paths(store, "a/") == []
        store.delete_many(["a/b"])

    def test_a_range_is_read(self, store: Store) -> None:
        """Footer readers request the last bytes."""
        store.put("digits", b"0123456789")
        assert store.read("digits", 3) == b"3456789"
        assert store.read("digits", 3, 4) == b"3456"
        assert store.read("digits", 0, 1) == b"0"

    def test_a_range_beyond_the_end_is_truncated(self, store: Store) -> None:
        """A reader may guess the length of a header."""
        store.put("digits", b"0123456789")
        assert store.read("digits", 8, 100) == b"89"
        assert store.read("digits", 10, 5) == b""
        assert store.read("digits", 11) == b""
        assert store.read("digits", 100, 1) == b""
        assert store.read("digits", 5, 0) == b""
        store.put("empty", b"")
        assert store.read("empty", 0, 5) == b""

    def test_a_range_of_a_missing_object_is_not_found(self, store: Store) -> None:
        """For any range."""
        for start, length in ((0, 0), (0, 5), (5, None)):
            with pytest.raises(NotFoundError):
                store.read("missing", start, length)

    def test_a_negative_range_is_refused(self, store: Store) -> None:
        """Clients interpret it differently."""
        store.put("digits", b"0123456789")
        with pytest.raises(InvalidInputError):
            store.read("digits", -1)
        with pytest.raises(InvalidInputError):
            store.read("digits", 0, -1)

    def test_many_are_read_in_the_requested_order(self, store: Store) -> None:
        """Also with duplicate paths."""
        objects = {f"many/{number:03d}": str(number).encode() for number in range(50)}
        store.put_many(objects)
        requested = [*reversed(objects), "many/missing", "many/007", "many/007"]
        assert store.read_many(requested) == [objects.get(path) for path in requested]
        assert store.read_many([]) == []

    def test_put_many_replaces_existing_objects(self, store: Store) -> None:
        """In several folders at once."""
        store.put("a/1", b"old")
        store.put_many({"a/1": b"new", "a/2": b"2", "b/c/3": b"3", "4": b"4"})
        store.put_many({})
        assert store.read_many(["a/1", "a/2", "b/c/3", "4"]) == [b"new", b"2", b"3", b"4"]

    def test_only_the_first_create_of_a_path_succeeds(self, store: Store) -> None:
        """A create also fails after a put."""
        assert store.create("a/new", b"first") is True
        assert store.create("a/new", b"second") is False
        assert store.read("a/new") == b"first"
        store.put("a/put", b"put")
        assert store.create("a/put", b"created") is False
        assert store.read("a/put") == b"put"

    def test_a_deleted_path_can_be_created_again(self, store: Store) -> None:
        """A delete ends the guarantee of a single winner."""
        assert store.create("a", b"first")
        store.delete_many(["a"])
        assert store.create("a", b"second")
        assert store.read("a") == b"second"

    def test_delete_many_deletes_only_the_given_objects(self, store: Store) -> None:
        """Missing objects are not an error."""
        store.put_many({f"d/{number}": b"x" for number in range(20)})
        store.delete_many(iter([f"d/{number}" for number in range(0, 20, 2)] + ["d/none", "none/at/all"]))
        assert list_paths(store, "d/") == sorted(f"d/{number}" for number in range(1, 20, 2))
        store.delete_many([])
        store.delete_many(["only/missing"])

    def test_a_listing_is_in_order_of_bytes(self, store: Store) -> None:
        """A slash sorts like any other byte: above `-` and `.`, below digits."""
        paths = [path for path in _ORDERED if not self.folders_hide_objects or path not in {"a", "a/b"}]
        store.put_many({path: path.encode() for path in reversed(paths)})
        assert list_paths(store) == paths
        assert sorted(paths, key=str.encode) == paths

    def test_a_listing_reports_size_and_time(self, store: Store) -> None:
        """Vacuum relies on both."""
        store.put("a/b", b"12345")
        (found,) = store.list()
        assert isinstance(found, ObjectInfo)
        assert (found.path, found.size) == ("a/b", 5)
        assert 1_600_000_000_000 < found.modified_at_millis < 10_000_000_000_000

    def test_a_prefix_may_end_anywhere(self, store: Store) -> None:
        """Not only at a slash, as in some clients."""
        store.put_many(dict.fromkeys(["_01.ipc", "_0/x", "_11.ipc", "a/bc/d", "a/bd", "a/c", "z"], b""))
        assert list_paths(store, "_") == ["_0/x", "_01.ipc", "_11.ipc"]
        assert list_paths(store, "_0") == ["_0/x", "_01.ipc"]
        assert list_paths(store, "a/b") == ["a/bc/d", "a/bd"]
        assert list_paths(store, "a/") == ["a/bc/d", "a/bd", "a/c"]
        assert list_paths(store, "a/bd") == ["a/bd"]
        assert list_paths(store, "nothing") == []
        assert list_paths(store, "nothing/here/") == []

    def test_a_listing_starts_after_a_path(self, store: Store) -> None:
        """Exclusive, whether or not that path exists."""
        paths = ["a", "b-c", "b/a", "b/b", "b/c/d", "b0", "c"]
        store.put_many(dict.fromkeys(paths, b""))
        for start_after in ["", *paths, "b", "b/", "b/aa", "b/c", "b/c/", "zzz", "0"]:
            assert list_paths(store, start_after=start_after) == [path for path in paths if path > start_after]
        assert list_paths(store, "b/", start_after="b/a") == ["b/b", "b/c/d"]
        assert list_paths(store, "b/", start_after="a") == ["b/a", "b/b", "b/c/d"]
        assert list_paths(store, "b/", start_after="c") == []

    def test_a_delimiter_groups_deeper_paths_into_prefixes(self, store: Store) -> None:
        """Each common prefix is listed once, in order."""
        store.put_many(dict.fromkeys(["a", "b-c", "b/a", "b/c/d", "b/c/e", "b0"], b""))
        assert _list_paths(store, "") == ["a", "b-c", "b/", "b0"]
        assert _list_paths(store, "b") == ["b-c", "b/", "b0"]
        assert _list_paths(store, "b/") == ["b/a", "b/c/"]
        assert _list_paths(store, "b/c") == ["b/c/"]
        assert _list_paths(store, "b/c/") == ["b/c/d", "b/c/e"]
        assert isinstance(next(iter(store.list("b/c", delimiter=True))), Prefix)

    def test_a_delimiter_can_be_combined_with_start_after(self, store: Store) -> None:
        """A prefix is listed if a path below it follows the start."""
        store.put_many(dict.fromkeys(["a", "b/a", "b/c", "c"], b""))
        assert _list_paths(store, "", "a") == ["b/", "c"]
        assert _list_paths(store, "", "b/") == ["b/", "c"]
        assert _list_paths(store, "", "b/a") == ["b/", "c"]
        assert _list_paths(store, "", "b/c") == ["c"]
        assert _list_paths(store, "b/", "b/a") == ["b/c"]

    def test_a_long_listing_is_whole(self, store: Store) -> None:
        """Longer than one page of any server."""
        paths = [f"long/{number:04d}" for number in range(1_050)]
        store.put_many(dict.fromkeys(paths, b""))
        assert list_paths(store, "long/") == paths
        assert list_paths(store, "long/", start_after="long/0999") == paths[1_000:]
        store.delete_many(paths)
        assert list_paths(store) == []

    @pytest.mark.parametrize("path", REFUSED_PATHS, ids=lambda path: repr(path[:20]))
    def test_an_invalid_path_is_rejected_and_changes_nothing(self, store: Store, path: str) -> None:
        """For every operation, alone or among other paths."""
        with pytest.raises(InvalidInputError):
            store.put(path, b"x")
        with pytest.raises(InvalidInputError):
            store.create(path, b"x")
        with pytest.raises(InvalidInputError):
            store.put_many({"fine": b"x", path: b"x"})
        with pytest.raises(InvalidInputError):
            store.read(path)
        with pytest.raises(InvalidInputError):
            store.read_many([path])
        with pytest.raises(InvalidInputError):
            store.size(path)
        with pytest.raises(InvalidInputError):
            store.exists(path)
        assert list_paths(store) == []
        store.put("fine", b"x")
        with pytest.raises(InvalidInputError):
            store.delete_many(["fine", path])
        assert store.exists("fine")

    @pytest.mark.parametrize("prefix", ["/", "//", "a//", "../", "a/../", "a\0", "x" * 10_240])
    def test_a_refused_prefix_is_refused_before_the_listing(self, store: Store, prefix: str) -> None:
        """Not only when the first entry is requested."""
        with pytest.raises(InvalidInputError):
            store.list(prefix)
        with pytest.raises(InvalidInputError):
            store.list(start_after=prefix)

    def test_names_are_stored_unchanged(self, store: Store) -> None:
        """Names are not escaped, case-folded or normalized."""
        store.put_many({path: path.encode() for path in _TRICKY_PATHS})
        shown = list_paths(store)
        assert shown == sorted(_TRICKY_PATHS)
        assert store.read_many(_TRICKY_PATHS) == [path.encode() for path in _TRICKY_PATHS]
        for path in _TRICKY_PATHS:
            assert store.size(path) == len(path.encode())
            assert not store.create(path, b"other")
        store.delete_many(_TRICKY_PATHS)
        assert list_paths(store) == []

    def test_a_long_path_works(self, store: Store) -> None:
        """Three segments of maximum length; the root may use the rest of the bytes that servers allow."""
        path = "/".join(["x" * 255] * 3)
        store.put(path, b"1")
        assert store.read(path) == b"1"
        assert list_paths(store) == [path]

    def test_a_large_object_round_trips(self, store: Store) -> None:
        """Larger than one packet, buffer or part."""
        data = bytes(range(256)) * (9 * 4096)
        store.put("large", data)
        assert store.read("large") == data
        assert store.read("large", len(data) - 3) == data[-3:]
        assert store.create("large-too", data)
        assert store.size("large-too") == len(data)

    def test_exactly_one_of_racing_creates_succeeds(self, store: Store) -> None:
        """A small race; separate tests cover larger ones."""
        assert probe_creates(store, threads=8, keys=10).is_sound
        assert list_paths(store) == []


def _list_paths(store: Store, prefix: str, start_after: str = "") -> list[str]:
    return [entry.path for entry in store.list(prefix, start_after=start_after, delimiter=True)]
