"""A clock that stands still until a test moves it."""

import pytest

from tests.mlscope.testing.memory_bus.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
