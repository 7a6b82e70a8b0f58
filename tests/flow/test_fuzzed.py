"""Two thousand nearly right messages from every key; `make test-fuzz` sends a million."""

from tests.faults.fuzzing import fuzz
from tests.flow.clusters import running


def test_no_made_up_message_ends_a_service() -> None:
    with running() as cluster:
        assert fuzz(cluster, seed=7, messages=2000) >= 2000
