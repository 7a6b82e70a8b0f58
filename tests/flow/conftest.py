"""One local cluster a module; the settings of a module's cluster are its `CLUSTER`."""

from collections.abc import Iterator

import pytest

from tests.flow.clusters import Cluster, running


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Lend a running cluster."""
    with running(getattr(request.module, "CLUSTER", {})) as lent:
        yield lent
