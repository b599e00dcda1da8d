"""The log by which Spark is told files: whatever an address holds, Spark's reader of JSON gets it back."""

import json

from hypothesis import given
from hypothesis import strategies as st

from mangrove.spark.file_lists import ListedFile, encode_file_log

addresses = st.text(min_size=1) | st.sampled_from(
    ["file:/a b/ü.parquet", 's3a://b/"quoted"\\x', "file:/a\nb", "\u2028"]
)


@given(st.lists(st.builds(ListedFile, addresses, st.integers(0, 2**40), st.integers(0, 2**31))))
def test_the_log_of_a_file_list_has_one_line_per_file_with_path_size_and_number(
    files: list[ListedFile],
) -> None:
    head, *lines = encode_file_log(files).split("\n")

    told = [json.loads(line) for line in lines]
    assert head == "v1"
    assert [(one["path"], one["size"], one["modificationTime"]) for one in told] == [
        (file.uri, file.size_bytes, file.number) for file in files
    ]
    assert all(one["action"] == "add" and one["isDir"] is False for one in told)
