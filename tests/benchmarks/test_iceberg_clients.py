"""The comparison of Iceberg clients: its operations and its table."""

from benchmarks.iceberg_clients.__main__ import OPERATIONS, render_results
from benchmarks.iceberg_clients.clients import CLIENTS


def test_the_code_of_each_client_belongs_to_an_operation() -> None:
    known = {operation.code or name for name, operation in OPERATIONS.items()}
    assert {name for client in CLIENTS.values() for name in client.operations} <= known


def test_failures_are_numbered_with_their_reasons_and_missing_operations_are_marked() -> None:
    results = {"a": {"read": "yes", "append": "it `failed`"}, "b": {"append": "it `failed`"}}
    lines = render_results(results, {"a": "A 1", "b": "B 2"}).splitlines()
    assert lines[1] == "| operation | A 1 | B 2 |"
    assert "| read | yes | – |" in lines
    assert "| append | no (1) | no (2) |" in lines
    assert lines[-2:] == ["1. A: `it failed`", "2. B: `it failed`"]
