"""Hundreds of nearly right messages from every key; `make test-fuzz` sends a million."""

import pytest

from tests.faults.fuzzing import fuzz
from tests.flow.clusters import running


@pytest.mark.parametrize("messages", [500, pytest.param(2000, marks=pytest.mark.long)])
def test_no_made_up_message_ends_a_service(messages: int) -> None:
    with running() as cluster:
        assert fuzz(cluster, seed=7, messages=messages) >= messages
