"""Numbers as people read them."""

from typing import Any

import pytest

from mlscope.client.quantities import counted, head_of, shown


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


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "\N{EN DASH}"),
        (12, "12"),
        (4_652_008, "4.65 M"),
        (1_234, "1.23 k"),
        (7_000_000_000, "7 G"),
    ],
)
def test_parameters_are_counted_as_people_do(count: int | None, text: str) -> None:
    assert counted(count) == text


@pytest.mark.parametrize(
    ("name", "unit", "head"),
    [("busy_ns", "ns", "busy"), ("rss_bytes", "By", "rss"), ("node_ns", "1", "node_ns")],
)
def test_a_heading_leaves_the_unit_to_its_cells(name: str, unit: str, head: str) -> None:
    assert head_of(name, unit) == head
