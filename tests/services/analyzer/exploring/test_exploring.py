"""Explorations of many evaluations: what they draw, and what they say when there is nothing."""

import pytest

from services.analyzer.building.charts import fields_of
from services.analyzer.exploring import EXPLORATIONS
from services.analyzer.exploring.accuracy import LATENCY, THROUGHPUT
from services.analyzer.exploring.cold import EXPLORATION as COLD
from services.analyzer.exploring.cost import EXPLORATION as COST
from services.analyzer.exploring.devices import EXPLORATION as DEVICES
from services.analyzer.exploring.frameworks import EXPLORATION as FRAMEWORKS
from services.analyzer.exploring.history import EXPLORATION as HISTORY
from services.analyzer.exploring.source import Exploration
from services.analyzer.exploring.speedup import EXPLORATION as SPEEDUP
from services.analyzer.exploring.systems import EXPLORATION as SYSTEMS
from tests.services.analyzer.exploring.loads import a_load, measured, rows_of, table_of


@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=lambda each: each.name)
def test_without_loads_each_says_what_to_run(exploration: Exploration) -> None:
    table = table_of(exploration)
    assert table.rows == ()
    assert "mlscope run" in table.verdict or exploration.name in ("cost", "cold_start")


@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=lambda each: each.name)
def test_a_chart_reads_columns_alone(exploration: Exploration) -> None:
    names = {column.name for column in exploration.columns}
    assert fields_of(exploration.chart) <= names


def test_the_front_has_what_nothing_beats_in_both() -> None:
    told = [
        a_load("fast", ms=1, **measured(0.6)),
        a_load("good", ms=5, **measured(0.8)),
        a_load("worse", ms=6, **measured(0.7)),
        a_load("unknown", ms=2),
    ]
    table = table_of(LATENCY, *told)
    on_front = {row["model"]: row["on_front"] for row in rows_of(table)}
    assert on_front == {"fast": True, "good": True, "worse": False}
    assert table.verdict == (
        "By top-1 on photos:1.0.0, nothing is both faster and more accurate than fast, good."
    )


def test_the_front_of_throughput_takes_the_fastest_batch() -> None:
    told = [
        a_load("one", batch_size=1, rate=10, **measured(0.6)),
        a_load("one", batch_size=8, rate=50, **measured(0.6)),
        a_load("two", rate=20, **measured(0.5)),
    ]
    rows = {row["model"]: row for row in rows_of(table_of(THROUGHPUT, *told))}
    assert (rows["one"]["batch_size"], rows["one"]["on_front"]) == (8, True)
    assert not rows["two"]["on_front"]


def test_a_few_samples_say_less_than_the_manifest() -> None:
    published = {"published_accuracy": 0.75, "published_metric": "top-1", "published_dataset": "I"}
    few = measured(1.0, judged=3)
    kinds = {
        row["model"]: (row["accuracy_is"], row["accuracy"])
        for row in rows_of(
            table_of(
                LATENCY,
                a_load("few", **few),
                a_load("quoted", **{**few, **published}),
                a_load("many", **{**measured(0.7), **published}),
            )
        )
    }
    assert kinds == {
        "few": ("smoke check", 1.0),
        "quoted": ("published", 0.75),
        "many": ("measured", 0.7),
    }


def test_speed_up_is_relative_to_the_smallest_batch() -> None:
    told = [a_load(batch_size=size, rate=rate) for size, rate in ((1, 100), (4, 300), (8, 250))]
    rows = rows_of(table_of(SPEEDUP, *told, a_load("alone")))
    assert [(row["batch_size"], row["speedup"], row["is_best"]) for row in rows] == [
        (1, 1.0, False),
        (4, 3.0, True),
        (8, 2.5, False),
    ]
    assert rows[1]["speedup_low"] < 3.0 < rows[1]["speedup_high"]
    assert {row["subject"] for row in rows} == {"tiny"}


def test_a_gain_that_may_be_none_is_not_the_largest() -> None:
    told = [a_load(batch_size=size, rate=rate) for size, rate in ((1, 100), (4, 300))]
    wide = {"samples_per_s_low": 1.0, "samples_per_s_high": 2000.0}
    told += [a_load("doubtful"), a_load("doubtful", batch_size=8, rate=900, **wide)]
    assert table_of(SPEEDUP, *told).verdict.startswith("tiny certainly gains the most: batch 4")


def test_where_larger_batches_gain_nothing_the_smallest_does_not_win() -> None:
    told = [a_load(batch_size=size, rate=rate) for size, rate in ((1, 100), (4, 90), (8, 80))]
    verdict = table_of(SPEEDUP, *told).verdict
    assert verdict.startswith(
        "No larger batch certainly gains; by the estimates tiny gains most: batch 4 has"
    )


def test_a_gpu_is_compared_with_the_fastest_cpu() -> None:
    told = [
        a_load(rate=100),
        a_load(rate=50, framework="pytorch"),
        a_load(rate=900, device="cuda", accelerator="H200", evaluation="e2"),
        a_load("only-cpu"),
    ]
    (row,) = rows_of(table_of(DEVICES, *told))
    assert (row["model"], row["gpu"], row["speedup"]) == ("tiny", "H200", 9.0)


def test_systems_of_the_same_model_stand_together() -> None:
    told = [a_load("alone"), a_load(rate=50), a_load(rate=90, agent="a2")]
    table = table_of(SYSTEMS, *told)
    assert [row["model"] for row in rows_of(table)] == ["tiny", "tiny", "alone"]
    assert "tiny is fastest with onnxruntime on a2, cpu" in table.verdict


def test_frameworks_are_relative_to_the_fastest() -> None:
    told = [a_load(ms=10), a_load(ms=25, framework="pytorch"), a_load("alone")]
    rows = rows_of(table_of(FRAMEWORKS, *told))
    assert [(row["framework"], row["relative_latency"]) for row in rows] == [
        ("onnxruntime", 1.0),
        ("pytorch", 2.5),
    ]


def test_costs_need_prices() -> None:
    told = [a_load(rate=1000), a_load(rate=1000, agent="a2")]
    assert table_of(COST, *told).rows == ()
    table = table_of(COST, *told, prices={"a1": 3.6})
    (row,) = rows_of(table)
    assert row["cost"] == pytest.approx(1.0)
    assert table.caveats == ("no price of: a2",)


def test_a_cold_start_is_compared_with_a_warm_query() -> None:
    (row,) = rows_of(table_of(COLD, a_load()))
    assert (row["first_run"], row["latency"], row["times"]) == (40_000_000, 10e6, 4.0)


def test_offered_loads_are_no_throughput() -> None:
    told = [a_load(scenario="poisson", offered_per_s=5.0), a_load(scenario="cold")]
    for exploration in (SYSTEMS, COLD, LATENCY):
        assert table_of(exploration, *told).rows == ()


def test_history_marks_what_certainly_changed() -> None:
    told = [
        a_load(evaluation=f"e{day}", requested=f"2026-01-0{day}T00:00:00Z", ms=ms)
        for day, ms in ((1, 10.0), (2, 10.1), (3, 12.0), (4, 9.0))
    ]
    table = table_of(HISTORY, *reversed(told))
    assert [(row["evaluation"], row["note"]) for row in rows_of(table)] == [
        ("e1", ""),
        ("e2", ""),
        ("e3", "+19%"),
        ("e4", "-25%"),
    ]
    assert "1 time a load became certainly slower" in table.verdict
    assert "2026-01-03" in table.verdict


def test_history_does_not_mix_loads() -> None:
    told = [a_load(ms=1), a_load(ms=9, batch_size=8), a_load(ms=9, framework="pytorch")]
    assert all(row["change"] == 0.0 for row in rows_of(table_of(HISTORY, *told)))
