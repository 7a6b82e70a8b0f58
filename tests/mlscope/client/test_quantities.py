"""Numbers as people read them."""

from typing import Any

import pytest

from mlscope.client.quantities import shown


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (5_123_456, "ns", "5.123 ms"),
        (999, "ns", "999 ns"),
        (2.5e9, "ns", "2.5 s"),
        (0, "ns", "0 ns"),
        (-1500, "ns", "-1.5 µs"),
        (18_700_000, "By", "18.7 MB"),
        (123456.7, "1/s", "123457 /s"),
        (0.12345, "share", "12.3%"),
        (True, "", "yes"),
        (42, "", "42"),
        ("conv1", "", "conv1"),
        (None, "ns", "\N{EN DASH}"),
        (float("nan"), "", "\N{EN DASH}"),
    ],
)
def test_a_cell_reads_well(value: Any, unit: str, text: str) -> None:
    assert shown(value, unit) == text
