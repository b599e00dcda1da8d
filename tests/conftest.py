"""What every test shares: how hypothesis searches, and which tests stay on one worker."""

import os

import pytest
from hypothesis import HealthCheck, settings

# The first text strategy on a fresh machine is slow and shared machines stall, so
# time is never what a property proves.
settings.register_profile("local", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", deadline=None, max_examples=5_000, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "local"))


# First, because xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the interop tests of a folder on one worker, so that its server or Spark session starts once."""
    for item in items:
        if item.get_closest_marker("interop") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.parent.name))
