"""Stages of the pipeline: rates alone and together, the bottleneck, and who waits for whom."""

from typing import Any

import pytest

from services.analyzer.building.pipelines.stages import busy_shares, summed_shares
from services.analyzer.tables.device_use import ANALYSIS as DEVICE_USE
from services.analyzer.tables.levels import ANALYSIS as LEVELS
from services.analyzer.tables.pipeline_stages import ANALYSIS, NO_OVERLAP, bottleneck_of
from services.analyzer.tables.tail import ANALYSIS as TAIL
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.pipelines import ahead, pooled
from tests.services.analyzer.tables.reading import MS, rows_of, table_of
from tests.services.analyzer.tables.traced import kernel_run, model_run


def pipelined(
    prepare_ms: int, predict_ms: int, count: int = 40, blocks: int = 1, **more: Any
) -> dict[str, Any]:
    """Return a run with one batch prepared while the one before is predicted, 1 ms of topk each."""
    queries: list[list[Any]] = []
    spans: list[list[Any]] = []
    for block in range(blocks):
        origin = prepared = predicted = block * 100_000 * MS
        for number in range(count):
            query = block * count + number
            begun, prepared = prepared, prepared + prepare_ms * MS
            predicted = max(prepared, predicted) + predict_ms * MS
            stages = (
                ("decode", begun, prepare_ms * MS // 2),
                ("resize", begun + prepare_ms * MS // 2, prepare_ms * MS // 2),
                ("predict", predicted - predict_ms * MS, predict_ms * MS),
                ("topk", predicted, MS),
            )
            for name, start, spent in stages:
                spans.append([len(spans), None, 2, name, start, spent, 0, query, block, None])
            ended = predicted + MS
            queries.append([query, block, 1, None, origin, begun, ended, ended - begun, 0])
    run = {"run": "r", "level": 2, "scenario": "batched", "queries": queries, "spans": spans}
    return run | more


def stages_of(run: dict[str, Any], *others: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a run's rows by stage, in an evaluation with `others`."""
    return {row["stage"]: row for row in rows_of(table_of(ANALYSIS, run, *others))}


def limiting(*runs: dict[str, Any]) -> str:
    """Return the bottleneck of the first run."""
    frames = frames_in({"runs": list(runs)})
    return bottleneck_of(frames, frames.measured[0])


def test_a_slow_preparation_is_the_bottleneck_and_bounds_the_rate() -> None:
    run = pipelined(10, 4)
    stages = stages_of(run)
    assert list(stages) == ["prepare", "predict", "post-process"]
    assert stages["prepare"]["busy_share"] == pytest.approx(0.99, abs=0.01)
    assert stages["predict"]["busy_share"] == pytest.approx(0.4, abs=0.01)
    assert stages["prepare"]["alone"] == pytest.approx(100, rel=0.01)
    assert stages["predict"]["alone"] == pytest.approx(250, rel=0.02)
    assert stages["post-process"]["alone"] == pytest.approx(1000, rel=0.02)
    assert {row["bound"] for row in stages.values()} == {stages["prepare"]["alone"]}
    assert stages["predict"]["of_bound"] == pytest.approx(0.99, abs=0.01)
    assert [row["is_bottleneck"] for row in stages.values()] == [True, False, False]
    verdict = table_of(ANALYSIS, run).verdict
    assert verdict.startswith("The bottleneck of r is prepare: 98.8 samples/s (")
    assert limiting(run) == "prepare"


def test_a_slow_model_is_waited_for() -> None:
    stages = stages_of(pipelined(2, 9, blocks=3))
    assert [row["is_bottleneck"] for row in stages.values()] == [False, True, False]
    assert stages["predict"]["alone"] == pytest.approx(1000 / 9, rel=0.02)
    assert stages["predict"]["waited"] > 100 * MS
    assert stages["post-process"]["waited"] == 0
    assert stages["prepare"]["spent"] == 2 * MS


def test_stages_whose_shares_overlap_are_not_told_apart() -> None:
    table = table_of(ANALYSIS, pipelined(8, 8))
    assert "which stage is the bottleneck of r: prepare or predict; " in table.verdict
    assert [row["is_bottleneck"] for row in rows_of(table)] == [None, None, False]


def test_samples_that_several_processes_prepare_at_a_time_are_one_stage() -> None:
    run = pipelined(10, 4)
    # Each batch has a second sample, which another process prepares at the same time.
    twins = [[*span[:6], 7, *span[7:]] for span in run["spans"] if span[3] in ("decode", "resize")]
    for number, span in enumerate(twins):
        span[0] = 10_000 + number
    queries = [[*query[:2], 2, *query[3:]] for query in run["queries"]]
    run |= {"spans": run["spans"] + twins, "queries": queries, "batch_size": 2}
    rates = {count: stages_of(run | of_processes(count))["prepare"] for count in (2, 4)}
    assert rates[2]["alone"] == pytest.approx(200, rel=0.01)
    assert rates[4]["alone"] == pytest.approx(400, rel=0.01)
    assert rates[4]["utilisation"] == pytest.approx(0.49, abs=0.01)
    assert rates[2]["at_once"] == rates[4]["at_once"] == pytest.approx(2.0)
    assert stages_of(run)["prepare"] == rates[2], "an imported recording: its threads count"


def of_processes(count: int, **more: Any) -> dict[str, Any]:
    """Return the conditions of a run whose samples so many processes prepared."""
    return {"conditions": {"prepare_processes": count, **more}}


def test_fourteen_processes_that_are_never_idle_at_once_do_not_bound_a_model() -> None:
    run = pooled(5.5, 4, processes=14)
    stages = stages_of(run)
    assert stages["prepare"]["busy_share"] > 0.8, "one of them nearly always prepares"
    assert stages["prepare"]["servers"] == 14
    assert stages["prepare"]["alone"] == pytest.approx(14 / 5.5e-3, rel=0.02)
    assert stages["predict"]["bound"] == pytest.approx(250, rel=0.02)
    assert stages["predict"]["of_bound"] == pytest.approx(1.0, abs=0.02)
    assert limiting(run) == "predict"
    assert table_of(ANALYSIS, run).verdict.startswith("The bottleneck of r is predict: ")


def test_one_process_bounds_a_faster_model() -> None:
    run = pooled(5.5, 4, processes=1)
    stages = stages_of(run)
    assert stages["prepare"]["servers"] == 1
    assert stages["prepare"]["bound"] == pytest.approx(1 / 5.5e-3, rel=0.02)
    assert stages["predict"]["alone"] == pytest.approx(250, rel=0.02)
    assert limiting(run) == "prepare"


def test_processes_also_read_samples_and_fill_inputs() -> None:
    # The steps of 120 samples take 5.5 ms each, and all else 1.1 ms.
    busy = of_processes(14, samples="streamed", prepare_busy_ns=120 * 66 * MS // 10)
    prepare = stages_of(pooled(5.5, 4, processes=14) | busy)["prepare"]
    assert prepare["alone"] == pytest.approx(14 / 6.6e-3, rel=0.02)
    full = of_processes(1, prepare_busy_ns=120 * 66 * MS // 10)
    assert stages_of(pooled(5.5, 4, processes=1) | full)["prepare"]["utilisation"] == 1.0


def test_threads_that_prepare_and_predict_have_less_time_to_prepare() -> None:
    # One thread prepares for 10 ms; the one that predicts for 4 ms helps in the time between.
    run = pipelined(10, 4) | {"conditions": {"prepare_threads": 1}}
    stages = stages_of(run)
    assert stages["prepare"]["servers"] == 2
    assert stages["prepare"]["alone"] == pytest.approx(200, rel=0.01)
    assert stages["prepare"]["bound"] == pytest.approx(1000 / ((10 + 4) / 2), rel=0.01)
    assert limiting(run) == "prepare"


def test_a_model_that_another_run_has_alone_is_not_guessed_from_this_one() -> None:
    run, alone = pooled(5.5, 4.4, processes=14, jitter_ms=0.02), ahead(4, jitter_ms=0.02)
    stages = stages_of(run, alone)
    assert stages["predict"]["alone_from"] == "a"
    assert stages["predict"]["alone"] == pytest.approx(250, rel=0.02)
    assert stages["predict"]["of_bound"] == pytest.approx(4 / 4.4, abs=0.02)
    assert stages["prepare"]["alone_from"] == "this run", "one process is not fourteen"
    assert stages["predict"]["slowdown"] == pytest.approx(1.1, abs=0.01)
    assert (stages["prepare"]["slowdown"], stages["predict"]["slowdown_from"]) == (None, "a")


def test_predict_beside_preparation_is_said_to_be_slower_only_beyond_its_interval() -> None:
    for predict_ms, jitter_ms, slower in ((4.4, 0.02, 1), (4.4, 3.0, 0), (4.05, 0.02, 0)):
        run = pooled(5.5, predict_ms, processes=14, jitter_ms=jitter_ms)
        caveats = table_of(ANALYSIS, run, ahead(4, jitter_ms=jitter_ms)).caveats
        said = [note for note in caveats if note.endswith("while samples are prepared than in a")]
        assert len(said) == slower
        assert all(note.startswith("r: predict takes 10") for note in said)


def test_one_process_prepared_before_the_clock_without_a_model_beside_it() -> None:
    stages = stages_of(pooled(5.5, 4, processes=1), ahead(4, prepare_ms=5))
    assert stages["prepare"]["alone_from"] == "a, before the clock"
    assert stages["prepare"]["bound"] == pytest.approx(200, rel=0.01)
    assert stages["prepare"]["of_bound"] == pytest.approx(5 / 5.5, abs=0.02)


@pytest.mark.parametrize(
    "differing",
    [
        {"batch_size": 2},
        {"level": 3},
        {"model": "larger"},
        {"conditions": {"samples": "streamed"}},
        {"conditions": {"samples": "ahead", "calls_in_flight": 2}},
        {"conditions": {"samples": "ahead", "options": {"threads": 2}}},
        {"queries": [[n, 0, 1, n * MS, n * MS, n * MS, n * MS + 5, 5, 0] for n in range(9)]},
    ],
)
def test_a_run_of_another_kind_does_not_have_the_model_alone(differing: dict[str, Any]) -> None:
    predict = stages_of(pooled(5.5, 4, processes=14), ahead(2) | differing)["predict"]
    assert (predict["alone_from"], predict["slowdown"]) == ("this run", None)


def test_a_run_of_the_same_scenario_has_the_model_alone_rather_than_another() -> None:
    other = ahead(3) | {"run": "o", "scenario": "online"}
    run = pooled(5.5, 4, processes=14)
    assert stages_of(run, other, ahead(4))["predict"]["alone_from"] == "a"
    assert stages_of(run, other)["predict"]["alone_from"] == "o"


ON_DEVICE = of_processes(0, prepare_threads=1, options={"decode": "device"})


def test_a_device_that_decodes_and_predicts_does_so_in_turn() -> None:
    alone = ahead(4, prepare_ms=6, options={"decode": "device"})
    run = pooled(8, 8, processes=1) | ON_DEVICE
    stages = stages_of(run, alone)
    assert [row["servers"] for row in stages.values()] == [1, 1, 1]
    assert stages["prepare"]["bound"] == pytest.approx(100, rel=0.01)
    assert [row["is_bottleneck"] for row in stages.values()] == [True, True, False]
    assert limiting(run, alone) == "prepare and predict"
    verdict = table_of(ANALYSIS, run, alone).verdict
    assert verdict.startswith("The bottleneck of r is prepare and predict, by one device: ")


def test_what_a_shared_device_could_do_alone_is_not_known_from_both_together() -> None:
    run = pooled(8, 8, processes=1) | ON_DEVICE
    stages = stages_of(run)
    assert {row["bound"] for row in stages.values()} == {None}
    assert (stages["predict"]["alone"], stages["predict"]["alone_from"]) == (None, "")
    assert limiting(run) == ""
    assert "only beside a run with samples prepared ahead" in table_of(ANALYSIS, run).verdict


def test_overlapping_calls_of_a_model_count_once() -> None:
    run = pooled(2, 4, processes=4) | of_processes(4, calls_in_flight=2)
    # Each call begins while the one before it is computed.
    for span in run["spans"]:
        if span[3] == "predict":
            span[4], span[5] = span[4] - MS, span[5] + MS
    predict = stages_of(run)["predict"]
    assert predict["utilisation"] == pytest.approx(0.99, abs=0.02)
    assert predict["alone"] == pytest.approx(250, rel=0.02)
    predict = stages_of(run, ahead(4, calls_in_flight=2))["predict"]
    assert (predict["alone_from"], predict["slowdown"]) == ("a", None)


def test_a_load_below_every_rate_is_limited_by_none() -> None:
    run = pooled(5, 4, processes=1, due_ms=7)
    assert [row["is_bottleneck"] for row in stages_of(run).values()] == [False] * 3
    assert table_of(ANALYSIS, run).verdict.startswith("No stage limits r, whose queries come more")
    assert limiting(run) == ""
    assert limiting(pooled(5, 4, processes=1, due_ms=5)) == "prepare"


def test_one_query_at_a_time_has_no_stages_that_overlap() -> None:
    queries = [[n, 0, 1, None, n * 10, n * 10, n * 10 + 9, 9, 0] for n in range(9)]
    spans = [
        [2 * n + part, None, 2, name, n * 10 + 4 * part, 4, 0, n, 0, None]
        for n in range(9)
        for part, name in enumerate(("decode", "predict"))
    ]
    table = table_of(ANALYSIS, {"run": "r", "level": 2, "queries": queries, "spans": spans})
    assert (table.rows, table.verdict) == ((), NO_OVERLAP)


def test_copies_within_predict_are_part_of_it() -> None:
    run = pipelined(10, 4)
    copies = [
        [9000 + n, None, 2, "copy_in", span[4], MS, 0, span[7], 0, None]
        for n, span in enumerate(run["spans"])
        if span[3] == "predict"
    ]
    assert stages_of(run | {"spans": run["spans"] + copies}) == stages_of(run)


def test_time_is_divided_into_stretches_of_each_block() -> None:
    run = frames_in({"runs": [pipelined(10, 4, blocks=4)]}).measured[0]
    shares = busy_shares(run, "predict")
    assert len(shares) == 20
    assert all(0.3 < share < 0.5 for share in shares)
    assert summed_shares(run, "predict") == pytest.approx(shares), "they never overlap"


def test_levels_have_no_time_outside_operators_that_ran_side_by_side() -> None:
    table = table_of(LEVELS, pipelined(10, 4))
    parts = [row["part"] for row in rows_of(table)]
    assert "predict" in parts
    assert not {"operators", "outside operators"} & {*parts}
    assert any(caveat.endswith("see pipeline_stages") for caveat in table.caveats)


def test_a_slow_query_of_overlapping_ones_is_explained_by_its_stages() -> None:
    table = table_of(TAIL, pipelined(2, 9, count=100))
    rows = {row["part"]: row for row in rows_of(table)}
    assert rows["waiting for predict"]["kind"] == "wait"
    assert rows["predict"]["kind"] == "stage"
    assert "outside operators" not in rows
    whole = sum(row["slow"] for row in rows.values() if row["kind"] in ("wait", "stage"))
    assert whole == pytest.approx(rows["query"]["slow"])
    assert table.verdict.endswith("of it waiting for predict.")


def test_a_device_that_waits_for_prepared_samples_is_input_bound() -> None:
    for prepare_ms, bound in ((10, "input-bound"), (1, "host-bound")):
        model = model_run(**pipelined(prepare_ms, 4, scenario="online") | {"run": "m"})
        (row,) = rows_of(table_of(DEVICE_USE, model, kernel_run((0, "k", 5000, *[None] * 4))))
        assert row["bound"] == bound


@pytest.mark.parametrize(("processes", "bound"), [(14, "host-bound"), (1, "input-bound")])
def test_a_device_that_many_processes_feed_is_not_input_bound(processes: int, bound: str) -> None:
    model = model_run(**pooled(5.5, 4, processes=processes, scenario="online") | {"run": "m"})
    (row,) = rows_of(table_of(DEVICE_USE, model, kernel_run((0, "k", 5000, *[None] * 4))))
    assert row["bound"] == bound
