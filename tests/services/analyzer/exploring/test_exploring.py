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
from tests.services.analyzer.exploring.loads import a_load, measured, table_of
from tests.services.analyzer.tables.reading import rows_of

UNTOLD = "The intervals do not tell which gains the most"


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
        "By the estimates, nothing is both faster and more accurate (top-1 on photos:1.0.0) than "
        "fast, good."
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


def test_an_interval_from_zero_leaves_a_logarithmic_axis_its_ticks() -> None:
    pen = pytest.importorskip("vl_convert")
    chart = dict(THROUGHPUT.chart or {})
    cells = dict.fromkeys(fields_of(chart), 0.75)
    rates = {"samples_per_s": 30.0, "samples_per_s_low": 0.0, "samples_per_s_high": 60.0}
    picture = pen.vegalite_to_svg({**chart, "data": {"values": [cells | rates]}})
    assert ">20<" in picture


def test_accuracies_that_were_not_measured_here_are_counted() -> None:
    published = {"published_accuracy": 0.75, "published_metric": "top-1", "published_dataset": "I"}
    table = table_of(LATENCY, a_load("quoted", **published))
    assert "accuracies quoted by manifests, not measured here: 1 of 1" in table.caveats


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
    assert table_of(SPEEDUP, *told).verdict.startswith(
        f"{UNTOLD}: doubtful or tiny; tiny gains, with an interval above 1: batch 4"
    )


@pytest.mark.parametrize(
    ("rival", "gains"),
    [
        (200, "tiny gains the most:"),
        (299, f"{UNTOLD}: tiny or rival; tiny gains, with an interval above 1:"),
    ],
)
def test_a_gain_is_the_most_only_where_its_interval_clears_all_others(
    rival: float, gains: str
) -> None:
    told = [a_load(batch_size=size, rate=rate) for size, rate in ((1, 100), (4, 300))]
    told += [a_load("rival"), a_load("rival", batch_size=4, rate=rival)]
    assert table_of(SPEEDUP, *told).verdict.startswith(f"{gains} batch 4")


def test_no_batch_size_is_the_best_where_intervals_leave_two() -> None:
    told = [a_load(batch_size=size, rate=rate) for size, rate in ((1, 100), (4, 300), (8, 301))]
    table = table_of(SPEEDUP, *told)
    assert [row["is_best"] for row in rows_of(table)] == [False, None, None]
    assert table.verdict.startswith(
        f"{UNTOLD}: tiny (batch size 8) or tiny (batch size 4); tiny gains, with an interval above "
        "1: batch 8 has"
    )


def test_the_gain_of_the_one_larger_batch_is_not_the_most() -> None:
    told = [a_load(batch_size=size, rate=rate) for size, rate in ((1, 100), (4, 300))]
    assert table_of(SPEEDUP, *told).verdict.startswith(
        "tiny gains, with an interval above 1: batch 4"
    )


def test_where_larger_batches_gain_nothing_the_smallest_does_not_win() -> None:
    told = [a_load(batch_size=size, rate=rate) for size, rate in ((1, 100), (4, 90), (8, 80))]
    verdict = table_of(SPEEDUP, *told).verdict
    assert verdict.startswith(
        "No larger batch has a speed-up whose interval is above 1; tiny: batch 4 has"
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
    assert (
        "1 time a load became slower by 3% or more with intervals that do not overlap"
        in table.verdict
    )
    assert table.verdict.endswith(
        "on 2026-01-03; 1 of these may be drift: fewer than 3 measurements of one version came "
        "before both."
    )


def test_history_marks_no_change_within_the_drift_of_earlier_measurements() -> None:
    def changes(*earlier_ms: float, **more: str) -> list[float | None]:
        times = [*((ms, {}) for ms in earlier_ms), (10.0, more), (12.0, more)]
        told = [
            a_load(evaluation=f"e{day}", requested=f"2026-01-0{day}", ms=ms) | own
            for day, (ms, own) in enumerate(times)
        ]
        return [row["change"] for row in rows_of(table_of(HISTORY, *told))][-1:]

    assert changes(10.0, 11.0, 12.0) == [None]
    assert changes(10.0, 10.1, 10.0) == changes(10.0, 12.0) == [pytest.approx(0.2)]


def test_history_does_not_mix_loads() -> None:
    told = [a_load(ms=1), a_load(ms=9, batch_size=8), a_load(ms=9, framework="pytorch")]
    assert all(row["change"] is None for row in rows_of(table_of(HISTORY, *told)))


def test_history_without_a_change_says_how_much_was_measured() -> None:
    days = [a_load(evaluation=f"e{n}", requested=f"2026-01-0{n}", ms=10.0) for n in (1, 2, 3)]
    table = table_of(HISTORY, *days, a_load("other"))
    assert table.verdict == (
        "4 measurements: none is slower than the one before by 3% or more with intervals that do "
        "not overlap."
    )
    faster = table_of(HISTORY, *days, a_load(requested="2026-01-04", ms=5.0)).verdict
    assert faster.startswith("4 measurements: none is slower, 1 is faster than the one before")
    once = table_of(HISTORY, a_load("a"), a_load("b"))
    assert once.verdict == "Each of 2 loads was measured once: nothing to compare."
    alone = table_of(HISTORY, a_load())
    assert alone.verdict == "The load was measured once: nothing to compare."
    unknown = a_load() | {"latency_ns": None}
    assert "Nothing was measured yet" in table_of(HISTORY, unknown).verdict


def test_the_loads_that_were_measured_most_often_have_their_history_first() -> None:
    once = a_load("once", requested="2026-01-01")
    twice = [a_load("twice", evaluation=f"e{n}", requested=f"2026-01-0{n}") for n in (2, 3)]
    rows = rows_of(table_of(HISTORY, once, *twice))
    assert [row["model"] for row in rows] == ["twice", "twice", "once"]
    assert [row["load"] for row in rows] == [
        "twice, online, batch 1",
        "twice, online, batch 1",
        "once, online, batch 1",
    ]
    assert rows_of(table_of(HISTORY, once))[0]["load"] == "online, batch 1"


def test_the_last_time_that_a_load_became_slower_is_named_with_its_system() -> None:
    slower = [
        a_load(model, agent=agent, requested=f"2026-0{month}-05T00:00:00Z", ms=ms)
        for model, agent, months in (("a", "a1", (1, 4)), ("b", "a2", (2, 3)))
        for month, ms in zip(months, (10.0, 12.0), strict=True)
    ]
    assert table_of(HISTORY, *slower).verdict == (
        "2 times a load became slower by 3% or more with intervals that do not overlap, last a, "
        "online, batch 1 with onnxruntime on a1, cpu: 20.0% on 2026-04-05; 2 of these may be "
        "drift: fewer than 3 measurements of one version came before both."
    )


def test_another_statistic_or_parameter_is_another_load() -> None:
    loads = [
        a_load(ms=1.0),
        a_load(ms=9.0, statistic="p99"),
        a_load(ms=9.0, parameters='{"rate_hz": 5}'),
        a_load(ms=9.0, precision="float16"),
    ]
    assert {row["change"] for row in rows_of(table_of(HISTORY, *loads))} == {None}


def test_of_scenarios_with_one_batch_size_the_faster_counts() -> None:
    loads = [a_load(rate=100), a_load(batch_size=4, rate=300, scenario="batched", run="fast")]
    slower = a_load(batch_size=4, rate=200, scenario="online", run="slow")
    for rows in ([*loads, slower], [slower, *loads]):
        last = rows_of(table_of(SPEEDUP, *rows))[-1]
        assert (last["run"], last["speedup"], last["base_batch_size"]) == ("fast", 3.0, 1)


def test_frameworks_compare_at_the_smallest_batch_size_that_several_have() -> None:
    loads = [
        a_load(ms=1, batch_size=1),
        a_load(ms=20, batch_size=2),
        a_load(ms=10, batch_size=2, framework="pytorch"),
        a_load(ms=5, batch_size=4),
        a_load(ms=50, batch_size=4, framework="pytorch"),
        a_load(ms=3, batch_size=1, framework="pytorch", agent="a2"),
    ]
    table = table_of(FRAMEWORKS, *loads)
    rows = [(row["framework"], row["relative_latency"]) for row in rows_of(table)]
    assert rows == [("pytorch", 1.0), ("onnxruntime", 2.0)]
    assert {row["place"] for row in rows_of(table)} == {"tiny on a1, cpu, batch 2"}
    # Each latency is known to 1%: by logarithms the ratio is known to about 1.4%.
    assert table.verdict == (
        "They differ the most for tiny on a1, cpu, batch 2: onnxruntime takes "
        "2.00 (1.97 … 2.03) times as long as the fastest."
    )


def test_frameworks_differ_the_most_only_where_the_intervals_tell() -> None:
    others = [
        a_load(agent=agent, ms=ms, framework="pytorch") for agent, ms in (("a1", 25), ("a2", 25.1))
    ]
    loads = [a_load(agent="a1"), a_load(agent="a2"), *others]
    assert table_of(FRAMEWORKS, *loads).verdict.startswith(
        "The intervals do not tell where they differ the most: pytorch for tiny on a2, cpu, batch "
        "1 or pytorch for tiny on a1, cpu, batch 1; for tiny on a2, cpu, batch 1, pytorch takes "
    )
    alike = [a_load(), a_load(ms=10.05, framework="pytorch")]
    assert table_of(FRAMEWORKS, *alike).verdict.startswith(
        "No framework is slower with an interval above 1; for tiny on a1, cpu, batch 1, pytorch"
    )


def test_the_newest_load_of_a_framework_is_its_figure() -> None:
    newest, older = a_load(ms=4, evaluation="e9"), a_load(ms=1, evaluation="e1")
    other = a_load(ms=2, framework="pytorch", evaluation="e5")
    rows = rows_of(table_of(FRAMEWORKS, newest, older, other))
    assert [(row["evaluation"], row["relative_latency"]) for row in rows] == [
        ("e5", 1.0),
        ("e9", 2.0),
    ]


def test_the_cost_of_a_faster_machine_is_lower_at_both_ends() -> None:
    wide = {"samples_per_s_low": 500.0, "samples_per_s_high": 2000.0}
    loads = [a_load("a", rate=1000, **wide), a_load("b", rate=4000)]
    table = table_of(COST, *loads, prices={"a1": 3.6})
    # 3.6 $ an hour is 0.001 $ a second: a million samples at 1000 a second cost 1 $.
    first, second = rows_of(table)
    assert [first[f"cost{end}"] for end in ("_low", "", "_high")] == pytest.approx([0.5, 1, 2])
    assert second["cost"] == pytest.approx(0.25)
    assert table.verdict.startswith("Cheapest is b: $0.25")
    assert table.verdict.endswith(" a million inferences at batch 1.")
    assert table.caveats == ()


def test_what_the_intervals_do_not_tell_apart_has_no_first() -> None:
    gpu = {"device": "cuda", "evaluation": "e2"}
    models = [a_load(model, rate=rate) for model, rate in (("a", 1000), ("b", 1010))]
    cost = table_of(COST, *models, prices={"a1": 3.6}).verdict
    assert cost.startswith("The intervals do not tell which is the cheapest: b or a; b costs about")
    faster = [a_load(model, rate=rate, **gpu) for model, rate in (("a", 9000), ("b", 9100))]
    gains = table_of(DEVICES, *models, *faster).verdict
    assert gains.startswith("The intervals do not tell which gains the most: b or a; b gains about")
    systems = [a_load(rate=rate, agent=agent) for agent, rate in (("a1", 90), ("a2", 91))]
    fastest = table_of(SYSTEMS, *systems, a_load(rate=90.5, batch_size=2)).verdict
    assert fastest.startswith(
        "The intervals do not tell which system is fastest with tiny: onnxruntime on a2, cpu or "
        "onnxruntime on a1, cpu; onnxruntime on a2, cpu has about 91.0"
    )


def test_a_throughput_without_an_interval_has_a_cost_without_one() -> None:
    load = a_load(samples_per_s_low=None, samples_per_s_high=None)
    (row,) = rows_of(table_of(COST, load, prices={"a1": 3.6}))
    assert (row["cost_low"], row["cost_high"]) == (None, None)


def test_the_costliest_first_prediction_is_named_by_its_ratio() -> None:
    loads = [
        a_load("slow", ms=100, first_run_ns=200_000_000),
        a_load("cold", ms=1, first_run_ns=50_000_000),
        a_load("cold", ms=2, batch_size=8, first_run_ns=900_000_000),
        a_load("untold", first_run_ns=None),
    ]
    table = table_of(COLD, *loads)
    assert [(row["model"], row["times"]) for row in rows_of(table)] == [("slow", 2.0), ("cold", 50)]
    assert table.verdict == (
        "By estimates without intervals, cold has the slowest first prediction relative to a warm "
        "one: 50 times (50 ms)."
    )
    assert table.caveats == ("a first prediction is measured once: it has no interval",)


def test_the_model_that_gains_most_on_a_gpu_is_named() -> None:
    gpu = {"device": "cuda", "evaluation": "e2"}
    loads = [
        *(a_load(model, rate=100) for model in ("a", "b")),
        a_load("a", rate=200, **gpu),
        a_load("b", rate=900, batch_size=8, **gpu),
        a_load("b", rate=400, **gpu),
    ]
    table = table_of(DEVICES, *loads)
    assert [(row["model"], row["speedup"]) for row in rows_of(table)] == [("a", 2.0), ("b", 9.0)]
    assert rows_of(table)[1]["gpu"] == "onnxruntime on a1, cuda"
    assert table.verdict.startswith("b gains the most: 9.00 (")


def test_a_device_that_is_no_gpu_is_not_compared_as_one() -> None:
    others = [a_load("a", rate=900, device=name, evaluation="e2") for name in ("fpga", "remote")]
    table = table_of(DEVICES, a_load("a", rate=100), *others)
    assert not table.rows
    assert table.verdict.startswith("No model was measured on a CPU and on a GPU")


def test_of_one_system_and_batch_size_the_highest_throughput_counts() -> None:
    loads = [
        a_load("few", rate=999),
        a_load("most", rate=50, run="slow"),
        a_load("most", rate=80, run="fast", scenario="batched"),
        a_load("most", rate=70, batch_size=2),
        a_load("most", rate=60, agent="a2"),
    ]
    table = table_of(SYSTEMS, *loads)
    rows = [(row["model"], row["agent"], row["run"], row["measurements"]) for row in rows_of(table)]
    assert rows == [
        ("most", "a1", "fast", 3),
        ("most", "a1", "r0", 3),
        ("most", "a2", "r0", 3),
        ("few", "a1", "r0", 1),
    ]
    assert table.verdict == (
        "most is fastest with onnxruntime on a1, cpu: 80.0 (79.2 … 80.8) samples/s at batch 1, "
        "of 2 measured."
    )
