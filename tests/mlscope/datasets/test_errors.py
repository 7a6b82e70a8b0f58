"""Errors of datasets stay short, whatever value they show."""

import tracemalloc
from typing import Any

from mlscope.datasets.errors import BadField

MIB = 1 << 20


def test_an_error_shows_little_of_a_large_value() -> None:
    value: Any = [1]
    for _ in range(20):
        value = [value, value]
    tracemalloc.start()
    try:
        assert len(str(BadField("f", 0, "x", value, "less"))) < 200
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
