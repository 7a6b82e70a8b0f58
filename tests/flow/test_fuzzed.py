"""Hundreds of nearly right messages from every key; `make test-fuzz` sends a million."""

import pytest

from tests.faults.fuzzing import fuzz
from tests.flow.clusters import Cluster, running

CLUSTER = "cluster_under_pressure"


def test_no_made_up_message_ends_a_service(cluster: Cluster) -> None:
    assert fuzz(cluster, seed=7, messages=500) >= 500


@pytest.mark.long
def test_no_message_of_thousands_ends_a_service() -> None:
    with running() as cluster:
        assert fuzz(cluster, seed=7, messages=2000) >= 2000
