"""Local clusters: one that modules without settings share, and one for each other module."""

from collections.abc import Iterator

import pytest

from tests.flow.clusters import Cluster, running


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    """Lend a cluster with the usual settings to every module that changes none."""
    with running() as lent:
        yield lent


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Lend a running cluster; a module's `CLUSTER` are the settings of one of its own."""
    settings = getattr(request.module, "CLUSTER", None)
    if settings is None:
        yield request.getfixturevalue("shared_cluster")
        return
    with running(settings) as lent:
        yield lent
