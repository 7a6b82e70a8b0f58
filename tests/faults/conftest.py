"""The clusters that all trials share."""

from collections.abc import Iterator

import pytest

from tests.faults.worlds import Worlds


@pytest.fixture(scope="module")
def worlds() -> Iterator[Worlds]:
    """Lend both clusters, each started by the first trial that is in it."""
    with Worlds() as lent:
        yield lent
