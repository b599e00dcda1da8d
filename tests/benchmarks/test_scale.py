"""The model of costs at scale agrees with counted and simulated costs at small sizes."""

import pytest
from benchmarks.scale import count_tree, predict_group, predict_tree, simulate_group


@pytest.mark.parametrize("objects", [3_000, 20_000])
def test_a_predicted_tree_is_like_the_counted_one(objects: int) -> None:
    predicted, counted = predict_tree(count_tree(1_000, commits=50), objects), count_tree(objects, commits=50)
    assert (predicted.height, predicted.lookup_reads) == (counted.height, counted.lookup_reads)
    assert predicted.open_requests == counted.open_requests
    assert predicted.nodes == pytest.approx(counted.nodes, rel=0.1)
    assert predicted.nodes_per_commit == pytest.approx(counted.nodes_per_commit, rel=0.2)


def test_a_predicted_group_of_writers_is_like_the_simulated_one() -> None:
    predicted, simulated = predict_group(simulate_group(6, 2.0), 12), simulate_group(12, 2.0)
    assert predicted.rate == pytest.approx(simulated.rate, rel=0.35)
    assert predicted.requests == pytest.approx(simulated.requests, rel=0.35)
