"""Numbers as people read them."""

from typing import Any

import pytest

from mlscope.quantities import counted, estimated, head_of, heads_of, number, shown, unit_of
from schemas.analysis import Column


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (5_123_456, "ns", "5.12 ms"),
        (999_700, "ns", "1 ms"),
        (0.0248, "s", "24.8 ms"),
        (999, "ns", "999 ns"),
        (2.5e9, "ns", "2.5 s"),
        (0, "ns", "0 ns"),
        (-1500, "ns", "-1.5 µs"),
        (18_700_000, "By", "18.7 MB"),
        (123456.7, "1/s", "123457 /s"),
        (0.12345, "share", "12.3%"),
        (-0.0001, "share", "0.0%"),
        (21_676_032, "FLOP", "21.7 MFLOP"),
        (53_908_557_533.0, "FLOP/s", "53.9 GFLOP/s"),
        (12.0, "FLOP", "12 FLOP"),
        (9.802, "FLOP/By", "9.8 FLOP/B"),
        (3.06, "USD/h", "$3.06/h"),
        (0.5, "USD", "$0.5"),
        (True, "", "yes"),
        (42, "", "42"),
        ("conv1", "", "conv1"),
        (None, "ns", "\N{EN DASH}"),
        (float("nan"), "", "\N{EN DASH}"),
    ],
)
def test_a_cell_reads_well(value: Any, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_the_sign_of_money_stands_before_it() -> None:
    assert estimated(6.01, 5.95, 6.07, "USD") == "$6.01 (5.95 … 6.07)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (14_960.24, "14960"),
        (999.6, "1000"),
        (216.6, "217"),
        (5_702.3, "5702"),
        (-12_345.6, "-12346"),
        (0.12346, "0.123"),
        (5.258, "5.26"),
        (4.501, "4.5"),
        (2.5e14, "250000000000000"),
    ],
)
def test_a_number_has_three_digits_and_is_never_in_powers_of_ten(value: float, text: str) -> None:
    assert number(value) == text


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


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("share_of_query", "share"),
        ("gpu_share", "share"),
        ("of_roof", "share"),
        ("change_low", "share"),
        ("times", "1"),
    ],
)
def test_a_share_of_one_is_shown_as_percent(name: str, unit: str) -> None:
    assert unit_of(Column(name=name, type="float", unit="1", description="")) == unit


def test_no_two_headings_become_alike() -> None:
    columns = [("layers_bytes", "By"), ("layers", "1"), ("process_bytes", "By")]
    assert heads_of(columns) == ["layers_bytes", "layers", "process"]


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "text"),
    [
        (12.34e6, 12.1e6, 12.6e6, "ns", "12.3 ms (12.1 … 12.6)"),
        (12.34e6, 12.31e6, 12.37e6, "ns", "12.34 ms (12.31 … 12.37)"),
        (178.2, 0.0, 468.0, "samples/s", "178 samples/s (0 … 468)"),
        (400.0, 400.0, 400.0, "1/s", "400 /s (400 … 400)"),
        (20e6, 18e6, None, "ns", "20.0 ms (18.0 … unknown)"),
        (20e6, None, 21e6, "ns", "20.0 ms (unknown … 21.0)"),
        (20e6, None, None, "ns", "20.0 ms (no interval)"),
        (0.03, -0.04, 0.11, "share", "3.0% (-4.0 … 11.0)"),
        (0.1234, 0.1231, 0.1237, "share", "12.34% (12.31 … 12.37)"),
        (-12.34e6, -12.6e6, -12.1e6, "ns", "-12.3 ms (-12.6 … -12.1)"),
        (0.0, 0.0, 0.0, "ns", "0 ns (0 … 0)"),
    ],
)
def test_an_estimate_is_shown_with_its_interval(
    value: float, low: float | None, high: float | None, unit: str, text: str
) -> None:
    assert estimated(value, low, high, unit) == text
