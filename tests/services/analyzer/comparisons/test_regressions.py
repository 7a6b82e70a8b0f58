"""Regressions: pairs of like conditions only, judged by intervals."""

import json
import re
from typing import Any

import pytest

from mlscope.client.brief import brief, table_layout
from services.analyzer.building.margins import UNKNOWN, Margin
from services.analyzer.comparisons.regressions import COMPARISON, change_of, result_of
from services.analyzer.comparisons.source import Source
from tests.services.analyzer.comparisons.reading import batch, rows, source, table_of

MS = 1_000_000


def _version(name: str, ns: int, **more: Any) -> Source:
    told = {"conditions": {"threads": 1, "precision": "fp32"}, "framework_version": name} | more
    return source(name, batch(1, ns, wobble=MS // 100, framework="onnxruntime", **told))


@pytest.mark.parametrize(
    ("ns", "result"), [(2 * MS, "slower"), (MS // 2, "faster"), (MS, "same"), (MS + 5, "same")]
)
def test_a_change_counts_beyond_its_interval(ns: int, result: str) -> None:
    (row,) = rows(COMPARISON, _version("1.0", MS), _version("2.0", ns))
    assert row["result"] == result
    assert row["change"] == pytest.approx((ns - MS) / (MS * 1.005), abs=1e-3)
    assert row["change_low"] <= row["change"] <= row["change_high"]
    assert row["changed"] == "framework"


def test_whole_runs_that_differ_are_faster_but_for_drift() -> None:
    table = table_of(COMPARISON, [_version("1.0", 2 * MS), _version("2.0", MS)])
    assert table.verdict == (
        "1 pair of whole runs, with fewer than 3 common blocks: it is faster by 1% or more with an "
        "interval that excludes 0; the interval leaves out drift between evaluations."
    )


def test_noise_wider_than_the_change_is_no_regression() -> None:
    before = source("1.0", batch(1, MS, count=6, wobble=MS))
    after = source("2.0", batch(1, MS + MS // 20, count=6, wobble=MS))
    (row,) = rows(COMPARISON, before, after)
    assert row["change"] > 0.02
    assert row["result"] == "same"


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"conditions": {"threads": 2, "precision": "fp32"}}, "threads"),
        ({"conditions": {"threads": 1, "precision": "int8"}}, "precision"),
        ({"dataset": "other:1"}, "dataset"),
        ({"pacing": "remote"}, "pacing"),
        ({"end": "failed"}, "end of b1"),
        ({"model": "another"}, "model"),
    ],
)
def test_unlike_conditions_refuse_the_pair_and_are_named(more: dict[str, Any], named: str) -> None:
    sources = [_version("1.0", MS), _version("2.0", 2 * MS, **more)]
    (row,) = rows(COMPARISON, *sources)
    assert (row["result"], row["change"], row["unlike"]) == ("refused", None, named)
    assert named in table_of(COMPARISON, sources).verdict


def test_another_version_of_the_same_model_is_compared() -> None:
    (row,) = rows(COMPARISON, _version("1.0", MS), _version("2.0", 2 * MS, model_version="2"))
    assert (row["result"], row["changed"], row["unlike"]) == ("slower", "model, framework", "")


@pytest.mark.parametrize(
    "more", [{"agent": "other"}, {"batch_size": 2}, {"scenario": "batched"}, {"level": 3}]
)
def test_runs_of_another_load_are_no_pair(more: dict[str, Any]) -> None:
    table = table_of(COMPARISON, [_version("1.0", MS), _version("2.0", MS, **more)])
    assert table.rows == ()
    assert table.caveats[0].startswith("2.0: 1 run has no partner")


def test_a_single_query_has_no_interval_and_no_verdict() -> None:
    before, after = (source(name, batch(1, ns, count=1)) for name, ns in (("a", MS), ("b", 9 * MS)))
    (row,) = rows(COMPARISON, before, after)
    assert (row["change"], row["change_low"], row["result"]) == (8.0, None, "unknown")


def test_each_later_evaluation_is_set_against_the_first() -> None:
    sources = [_version("1.0", MS), _version("2.0", 2 * MS), _version("3.0", 3 * MS)]
    told = rows(COMPARISON, *sources)
    assert [(row["first"], row["second"]) for row in told] == [("1.0", "2.0"), ("1.0", "3.0")]
    assert table_of(COMPARISON, sources).verdict.startswith(
        "2 pairs of whole runs, with fewer than 3 common blocks: 2 are slower by 1% or more "
    )


def _blocked(name: str, *blocks_ns: int, **more: Any) -> Source:
    """Return an evaluation of one run whose blocks' queries take so long each."""
    return source(name, batch(1, MS, queries=_queries(list(blocks_ns)), **more))


def test_blocks_are_paired_by_number_where_both_have_them() -> None:
    # Blocks drift alike: each is 2% slower, which whole runs can't tell from the drift.
    drift = [MS, 2 * MS, 4 * MS, 8 * MS]
    slower = [ns * 51 // 50 for ns in drift]
    (row,) = rows(COMPARISON, _blocked("1.0", *drift), _blocked("2.0", *slower, 99 * MS))
    assert (row["paired"], row["pairs"], row["result"]) == ("blocks", 4, "slower")
    assert row["change"] == pytest.approx(0.02)
    assert row["change_low"] == pytest.approx(0.02)


def test_blocks_that_change_both_ways_are_no_regression() -> None:
    before, after = [MS] * 4, [MS * 13 // 10, MS * 9 // 10, MS * 13 // 10, MS]
    (row,) = rows(COMPARISON, _blocked("1.0", *before), _blocked("2.0", *after))
    assert row["change"] == pytest.approx(0.125)
    assert (row["paired"], row["result"]) == ("blocks", "same")


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ([MS] * 4, "1 pair: it is neither slower nor faster by 1% or more with an interval"),
        ([2 * MS] * 4, "1 pair: it is slower by 1% or more with an interval that excludes 0, at"),
        ([MS // 2] * 4, "1 pair: it is faster by 1% or more with an interval that excludes 0; "),
    ],
)
def test_the_verdict_on_blocks_says_what_their_interval_says(
    after: list[int], verdict: str
) -> None:
    sources = [_blocked("1.0", *[MS] * 4), _blocked("2.0", *after)]
    assert table_of(COMPARISON, sources).verdict.startswith(verdict)


def test_too_few_blocks_leave_whole_runs() -> None:
    (row,) = rows(COMPARISON, _blocked("1.0", MS, MS), _blocked("2.0", MS, MS, MS))
    assert (row["paired"], row["pairs"]) == ("runs", 1)


def test_runs_of_another_variant_are_no_pair_and_replays_are_no_times() -> None:
    plain, serialised = _version("1.0", MS), _version("2.0", MS, variant="serialised")
    assert table_of(COMPARISON, [plain, serialised]).rows == ()
    replays = [_version(name, MS, variant="counters") for name in ("1.0", "2.0")]
    assert table_of(COMPARISON, replays).rows == ()


def test_openings_of_one_load_are_paired_in_their_order() -> None:
    before = source("1.0", batch(1, MS, run="a"), batch(1, 2 * MS, run="b"))
    after = source("2.0", batch(1, MS, run="c"), batch(1, 2 * MS, run="d"))
    told = rows(COMPARISON, before, after)
    assert [(row["first_run"], row["second_run"]) for row in told] == [("a", "c"), ("b", "d")]


def test_tables_stored_before_there_were_variants_are_paired_still() -> None:
    old, new = _version("1.0", MS), _version("2.0", MS)
    told = old.tables["conditions"]
    at = [column.name for column in told.columns].index("variant")
    without = told.model_copy(
        update={
            "columns": told.columns[:at] + told.columns[at + 1 :],
            "rows": tuple(row[:at] + row[at + 1 :] for row in told.rows),
        }
    )
    stored = Source("1.0", {"conditions": without, "latency": old.tables["latency"]})
    (row,) = rows(COMPARISON, stored, new)
    assert (row["result"], row["paired"]) == ("same", "runs")


def _of(name: str, *loads: tuple[str, dict[str, Any]]) -> Source:
    return source(name, *(batch(1, MS, run=run, parameters=told) for run, told in loads))


def test_runs_of_other_parameters_are_refused_and_the_parameters_named() -> None:
    before = _of("1.0", ("a", {"queries": 5, "rate_hz": 2}))
    after = _of("2.0", ("b", {"queries": 4, "rate_hz": 2, "seed": 1}))
    (row,) = rows(COMPARISON, before, after)
    assert (row["result"], row["change"]) == ("refused", None)
    assert row["unlike"] == "parameter queries, parameter seed"
    table = table_of(COMPARISON, [before, after])
    assert table.caveats == ()
    assert table.verdict.endswith("1 pair refused: different parameter queries, parameter seed.")


def test_runs_of_the_same_parameters_are_paired_before_others() -> None:
    before = _of("1.0", ("a", {"rate_hz": 5}), ("b", {"rate_hz": 9}))
    after = _of("2.0", ("c", {"rate_hz": 7}), ("d", {"rate_hz": 5}), ("e", {"rate_hz": 8}))
    told = rows(COMPARISON, before, after)
    assert [(row["first_run"], row["second_run"], row["result"]) for row in told] == [
        ("b", "c", "refused"),
        ("a", "d", "same"),
    ]
    note, _ = table_of(COMPARISON, [before, after]).caveats
    assert note.startswith("2.0: 1 run has no partner of the same agent, scenario, batch size")


def _told_late(ns: int) -> dict[str, Any]:
    return {"conditions": {"noise": {"issue_lateness_p99_ns": ns}}}


def test_noise_of_paired_runs_is_said_beside_their_change() -> None:
    lonely = batch(8, MS, **_told_late(9 * MS))
    before = source("1.0", batch(1, MS), batch(4, MS, **_told_late(3 * MS)))
    after = source("2.0", batch(1, 2 * MS, **_told_late(2 * MS)), batch(4, MS), lonely)
    noisy = [note for note in table_of(COMPARISON, [before, after]).caveats if "noisy" in note]
    assert [note.partition(" 1%")[0] for note in noisy] == ["2.0/b1: noisy:", "1.0/b4: noisy:"]
    assert "issued at least 2 ms late" in noisy[0]


@pytest.mark.parametrize(
    ("blocks", "said"), [(1, "1 of 1 pair compares whole runs"), (2, "1 of 1 pair"), (3, "")]
)
def test_a_change_of_whole_runs_is_said_to_be_one(blocks: int, said: str) -> None:
    sources = [_blocked(name, *[MS] * blocks) for name in ("1.0", "2.0")]
    caveats = table_of(COMPARISON, sources).caveats
    assert [note for note in caveats if "whole runs" in note] == list(caveats)
    assert (caveats[0].startswith(said) and "--blocks 3" in caveats[0]) if said else not caveats


def test_refused_pairs_need_no_blocks() -> None:
    sources = [_version("1.0", MS), _version("2.0", MS, model="another")]
    assert table_of(COMPARISON, sources).caveats == ()


def test_relative_half_widths_of_whole_runs_add_up_as_squares() -> None:
    # 3% and 4% of each are 5% of the ratio.
    change = change_of([], Margin(100.0, 97.0, 103.0), Margin(200.0, 192.0, 208.0))
    assert change.value == pytest.approx(1.0)
    assert change.low == pytest.approx(0.9)
    assert change.high == pytest.approx(1.1)
    assert change_of([], Margin(100.0), Margin(200.0, 192.0, 208.0)) == Margin(1.0)
    assert change_of([], UNKNOWN, Margin(200.0)) == UNKNOWN


def test_the_chart_draws_how_well_each_change_is_known() -> None:
    assert "change_high" in json.dumps(COMPARISON.chart)


@pytest.mark.parametrize(
    ("change", "result"),
    [
        (Margin(0.02, 0.01, 0.03), "slower"),
        (Margin(-0.02, -0.03, -0.01), "faster"),
        (Margin(0.01, 0.005, 0.02), "slower"),
        (Margin(0.0099, 0.005, 0.02), "same"),
        (Margin(-0.0099, -0.02, -0.005), "same"),
        (Margin(0.5, 0.0, 1.0), "same"),
        (Margin(-0.5, -1.0, 0.0), "same"),
        (Margin(0.5, None, 1.0), "unknown"),
        (Margin(0.5, 0.1, None), "unknown"),
        (UNKNOWN, "unknown"),
    ],
)
def test_a_change_is_judged_by_its_whole_interval_and_its_size(change: Margin, result: str) -> None:
    assert result_of(change) == result


def test_three_blocks_are_enough_and_two_are_not() -> None:
    whole = Margin(100.0, 99.0, 101.0), Margin(300.0, 297.0, 303.0)
    # Of ratios 1.1, 1.2 and 1.3 the deviation is 0.1; t at 97.5% with 2 degrees of freedom 4.303.
    blocks = change_of([1.1, 1.2, 1.3], *whole)
    assert blocks.value == pytest.approx(0.2)
    assert blocks.low == pytest.approx(0.2 - 4.3027 * 0.1 / 3**0.5, rel=1e-3)
    assert change_of([1.1, 1.2], *whole).value == pytest.approx(2.0)


def test_a_block_without_a_time_is_no_pair() -> None:
    (row,) = rows(COMPARISON, _blocked("1.0", 0, MS, MS, MS), _blocked("2.0", *[2 * MS] * 4))
    assert (row["pairs"], row["change"]) == (3, pytest.approx(1.0))


def test_the_worst_of_several_loads_is_named_and_those_near_it() -> None:
    def of(name: str, *blocks: list[int]) -> Source:
        return source(
            name,
            *(
                batch(size, MS, run=f"b{size}", queries=_queries(ns))
                for size, ns in zip((1, 4), blocks, strict=True)
            ),
        )

    before = of("1.0", [MS] * 4, [MS] * 4)
    steady = of("2.0", [2 * MS] * 4, [4 * MS] * 4)
    assert table_of(COMPARISON, [before, steady]).verdict == (
        "2 pairs: 2 are slower by 1% or more with intervals that exclude 0, at worst online at "
        "batch 4 by 300.0% (300.0 … 300.0); the intervals leave out drift between evaluations."
    )
    alike = of("2.0", [2 * MS] * 4, [2 * MS] * 4)
    assert (
        "; the intervals do not tell which is the worst: online at batch 1 or online at batch 4; "
        in table_of(COMPARISON, [before, alike]).verdict
    )


def _queries(blocks_ns: list[int]) -> list[list[Any]]:
    """Return five queries in each block, of so many ns each."""
    return [
        [5 * b + n, b, 1, None, at, at, at + ns, ns, 0]
        for b, ns in enumerate(blocks_ns)
        for n, at in enumerate(range(100 * b * MS, 100 * b * MS + 50 * MS, 10 * MS))
    ]


def test_its_rows_in_brief_fit_a_terminal_of_120_columns() -> None:
    named: dict[str, Any] = {"scenario": "single_stream", "level": 2}
    before, after = (
        source(name * 16, *(batch(size, ns, wobble=size, **named) for size in (1, 128)))
        for name, ns in (("a", MS), ("b", 2 * MS))
    )
    table = table_of(COMPARISON, [before, after])
    assert len(table.columns) > 26
    layout = table_layout(brief(table))
    assert max(map(len, (*layout.head, *layout.body))) <= 120
    assert re.search(r" 1 ms +2 ms +100\.0+% \(\S+ … \S+\) +slower$", layout.body[0])
