"""Orders in real workers: what is said of them when all is well, and when it is not."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.tracing.batches import columns_of
from schemas.batch import Batch, OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.level import Level
from schemas.manifest import Port, Step
from schemas.plan import Subject, WorkOrder
from schemas.request import Blocks
from schemas.run import RunFailed
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.link.batches import pack_batch
from services.agent.link.messages import RunEnded, ToHost
from services.agent.link.ring import RUNNING
from services.agent.worker.queries.pipeline import spans_per_query, steps_of
from tests.services.agent.builders import (
    MANIFESTS,
    SLEEPY,
    Kept,
    a_picture_subject,
    a_run,
    a_sleepy_subject,
    a_subject,
    an_order,
    carried_out,
    limits,
)

PHOTOS = MANIFESTS / "datasets" / "photos"
pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture(autouse=True)
def _with_sleepy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SLEEPY))


def column(facts: list[Any], name: str) -> list[int]:
    return [value for fact in facts for value in columns_of(fact)[name].tolist()]


def changed_model(subject: Subject, **changes: Any) -> Subject:
    return subject.model_copy(update={"model": subject.model.model_copy(update=changes)})


async def test_a_run_s_rows_are_as_many_as_its_tally_says(tmp_path: Path) -> None:
    said = await carried_out(an_order(runs=(a_run(queries=700),)), tmp_path)
    tally = said.completed().tally
    traces, queries = said.of(TraceCaptured), said.of(QueriesAnswered)
    assert (tally.spans, tally.queries, tally.outputs) == (1400, 700, 4)
    assert (len(traces), len(queries)) == (tally.trace_batches, tally.query_batches)
    assert sum(fact.count for fact in traces) == 1400
    assert [fact.sequence for fact in queries] == list(range(len(queries)))
    assert column(queries, "query") == list(range(700))
    assert len(set(column(traces, "span"))) == 1400
    assert len(set(said.ids)) == len(said.ids)


async def told(order: WorkOrder, worker: WorkerProcess) -> Kept:
    """Do an order in a started worker; return what is said of it."""
    kept = Kept()
    try:
        await Execution(OutcomePublisher(order, kept), worker, MANIFESTS, 30.0).carry_out()
    finally:
        await worker.close()
    return kept


async def test_a_worker_ends_no_run_of_another_evaluation(tmp_path: Path) -> None:
    """A model that took over its worker would end it in the name of its agent."""
    worker = await WorkerProcess.start("w", limits(tmp_path))
    receive = worker.receive

    async def forged() -> ToHost | None:
        message = await receive()
        if isinstance(message, RunEnded):
            return RunEnded(message.outcome.model_copy(update={"evaluation": "e2"}))
        return message

    worker.receive = forged
    (failed,) = (await told(an_order(), worker)).of(RunFailed)
    assert failed.evaluation == "e1"
    assert "e2/r0/1" in failed.message


@pytest.mark.parametrize("change", [{"evaluation": "e2"}, {"attempt": 2}, {"agent": "a2"}])
async def test_a_worker_measures_no_run_of_another_order(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    kept = await carried_out(an_order(), tmp_path / "first")
    batch = kept.of(QueriesAnswered)[0].model_copy(update=change)
    worker = await WorkerProcess.start("w", limits(tmp_path / "second"))
    worker._handover.push(pack_batch(batch))
    kept = await told(an_order(), worker)
    assert [fact for fact in kept.of(QueriesAnswered) if fact.agent != "a1"] == []
    assert {(fact.evaluation, fact.attempt) for fact in kept.of(QueriesAnswered)} <= {("e1", 1)}
    assert "of another order" in kept.of(RunFailed)[0].message


async def test_stamps_are_offsets_from_the_run_s_origin(tmp_path: Path) -> None:
    said = await carried_out(an_order(), tmp_path)
    origin = said.completed().origin
    ended = column(said.of(QueriesAnswered), "ended_ns")
    assert 0 < min(ended) <= max(ended) <= origin.monotonic_end_ns - origin.monotonic_ns
    assert column(said.of(QueriesAnswered), "due_ns") == [-1] * 5
    assert origin.boot_id
    assert abs(origin.epoch_end_ns - origin.epoch_start_ns) < 60e9


async def test_conditions_say_what_the_numbers_hold_for(tmp_path: Path) -> None:
    conditions = (await carried_out(an_order(), tmp_path)).completed().conditions
    assert (conditions.framework, conditions.threads) == ("onnxruntime", 1)
    assert list(conditions.checksums) == ["identity/model.onnx"]
    assert conditions.load_ns > 0 < conditions.rss_bytes
    assert "involuntary_switches" in conditions.noise


async def test_a_cat_is_a_cat_through_every_operator(tmp_path: Path) -> None:
    order = an_order(a_subject("efficientnet_lite0", "photos"), (a_run(queries=2),))
    said = await carried_out(order, tmp_path)
    per_query = spans_per_query(steps_of(order.subject.model), 1, Level.MODEL)
    assert said.completed().tally.spans == 2 * per_query
    (outputs,) = said.of(OutputsPredicted)
    features = json.loads(outputs.texts[0])["features"]
    assert features[0]["label"] in ("tiger cat", "tabby", "Egyptian cat")
    assert len(features) == 5


async def test_levels_of_a_group_interleave_as_blocks(tmp_path: Path) -> None:
    runs = (a_run("m", level="model"), a_run("l", level="framework"), a_run("n", level="none"))
    subject = a_subject("tiny_cnn", "noise32", blocks=Blocks(least=3, most=3))
    said = await carried_out(an_order(subject, runs), tmp_path)
    for run in ("m", "l", "n"):
        outcome = said.completed(run)
        assert [(block.block, block.queries) for block in outcome.blocks] == [
            (0, 5),
            (1, 5),
            (2, 5),
        ]
        assert outcome.tally.queries == 15
    ends = {
        run: np.split(
            np.array(column([q for q in said.of(QueriesAnswered) if q.run == run], "ended_ns"))
            + said.completed(run).origin.monotonic_ns,
            3,
        )
        for run in ("m", "l", "n")
    }
    assert ends["m"][0].max() < ends["l"][0].min() < ends["n"][0].min() < ends["m"][1].min()


async def test_layers_hang_under_predict_at_level_framework(tmp_path: Path) -> None:
    order = an_order(a_subject("tiny_cnn", "noise32"), (a_run(level="framework"),))
    said = await carried_out(order, tmp_path)
    columns = {name: column(said.of(TraceCaptured), name) for name in ("span", "parent", "level")}
    predicts = [s for s, level in zip(columns["span"], columns["level"], strict=True) if level == 2]
    parents = [
        p for p, level in zip(columns["parent"], columns["level"], strict=True) if level == 3
    ]
    assert len(predicts) == 5
    assert parents == [span for span in predicts for _ in range(8)]
    assert "whole microseconds" in said.completed().caveats[0]


async def test_a_level_too_deep_is_run_as_deep_as_can_be(tmp_path: Path) -> None:
    said = await carried_out(
        an_order(a_subject("tiny_cnn", "noise32"), (a_run(level="library"),)), tmp_path
    )
    outcome = said.completed()
    assert outcome.level == Level.FRAMEWORK
    assert "can only be traced down to level framework" in outcome.level_note
    assert outcome.tally.spans > 10


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param("poisson", marks=pytest.mark.long),
        pytest.param("fixed_rate", marks=pytest.mark.long),
        "batched",
    ],
)
async def test_every_scenario_of_a_picture_model_streams(tmp_path: Path, scenario: str) -> None:
    subject = a_subject("efficientnet_lite0", "photos", options={"threads": 2})
    rate: dict[str, Any] = {} if scenario == "batched" else {"rate_hz": 100}
    run = a_run(scenario=scenario, queries=6, **rate)
    said = await carried_out(an_order(subject, (run,), batch_size=2), tmp_path)
    per_query = spans_per_query(steps_of(subject.model), 2, Level.MODEL)
    assert said.completed().tally.spans == 6 * per_query
    assert said.completed().conditions.memory_bandwidth is None
    assert column(said.of(QueriesAnswered), "query") == list(range(6))
    due, issued = (column(said.of(QueriesAnswered), name) for name in ("due_ns", "issued_ns"))
    assert scenario == "batched" or all(i >= d >= 0 for d, i in zip(due, issued, strict=True))


async def test_a_corrupt_photo_fails_its_query_among_good_ones(tmp_path: Path) -> None:
    good = (PHOTOS / "chelsea.jpg").read_bytes()
    subject = a_picture_subject(
        tmp_path / "m", {"a.jpg": good, "torn.jpg": good[:900], "b.jpg": good}
    )
    order = an_order(subject, (a_run(queries=3),))
    said = await carried_out(order, tmp_path, manifests=tmp_path / "m")
    outcome = said.completed()
    assert column(said.of(QueriesAnswered), "status") == [0, 1, 0]
    assert said.of(QueriesAnswered)[0].error_texts[0].startswith("sample 1: decode: not a readable")
    assert (outcome.tally.failed_queries, outcome.tally.outputs) == (1, 2)
    (caveat,) = outcome.caveats
    assert caveat.startswith("1 of 3 queries failed, first: sample 1: decode: not a readable")


@pytest.mark.parametrize(
    ("subject", "error", "named"),
    [
        (
            changed_model(
                a_subject(),
                inputs=(Port(type="raw", layer_name="x", steps=(Step(operator="blur"),)),),
            ),
            "open",
            "unknown step 'blur'",
        ),
        (
            changed_model(
                a_subject("efficientnet_lite0", "photos"),
                outputs=(
                    Port(
                        type="c",
                        steps=(Step(operator="topk", parameters={"labels": "none.txt"}),),
                    ),
                ),
            ),
            "assets",
            "asset efficientnet_lite0/none.txt",
        ),
        (
            changed_model(
                a_subject(), model=a_subject().model.model.model_copy(update={"checksum": "00"})
            ),
            "assets",
            "expected 00",
        ),
        (a_subject(dataset="noise32"), "dataset", "the model takes float32[4]"),
        (a_subject("efficientnet_lite0", "vectors"), "dataset", "the model decodes files"),
        (a_subject(framework="caffe"), "open", "unknown framework 'caffe'; known: "),
        (a_subject(options={"provider": "tpu"}), "open", "option provider must be one of"),
        (a_sleepy_subject(opens_not=True), "open", "asleep"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_can_t_be_opened_fails_with_its_reason(
    tmp_path: Path, subject: Subject, error: str, named: str
) -> None:
    said = await carried_out(an_order(subject), tmp_path)
    failure = said.failed()
    assert (failure.error, failure.tally.queries) == (error, 0)
    assert named in failure.message


async def test_an_unknown_scenario_parameter_fails_its_run_only(tmp_path: Path) -> None:
    said = await carried_out(an_order(runs=(a_run("bad", speed=1), a_run("good"))), tmp_path)
    assert "online.speed" in said.failed("bad").message
    assert said.completed("good").tally.queries == 5


async def test_a_batch_size_the_model_can_t_take_names_its_shape(tmp_path: Path) -> None:
    said = await carried_out(an_order(a_subject("tiny_cnn", "noise32"), batch_size=3), tmp_path)
    assert said.completed().tally.queries == 5
    (tmp_path / "m" / "models").mkdir(parents=True)
    subject = _with_fixed_batch(tmp_path / "m" / "models")
    said = await carried_out(an_order(subject, batch_size=4), tmp_path, manifests=tmp_path / "m")
    failure = said.failed()
    assert failure.error == "batch_size"
    assert failure.message == "batch size 4 does not fit input x of shape [2, 4]"


def _with_fixed_batch(folder: Path) -> Subject:
    """Return the identity model with its free dimension 'batch' made a 2 (padded varint)."""
    graph = (MANIFESTS / "models" / "identity" / "model.onnx").read_bytes()
    fixed = graph.replace(b"\x0a\x07\x12\x05batch", b"\x0a\x07\x08\x82\x80\x80\x80\x80\x00")
    (folder / "fixed.onnx").write_bytes(fixed)
    assets = a_subject().model.model.model_copy(
        update={
            "base_url": "",
            "graph_path": "fixed.onnx",
            "checksum": hashlib.sha256(fixed).hexdigest(),
        }
    )
    return changed_model(a_subject(), model=assets)


async def test_a_failed_call_fails_its_query(tmp_path: Path) -> None:
    said = await carried_out(an_order(a_sleepy_subject(fails_at=2)), tmp_path)
    assert column(said.of(QueriesAnswered), "status") == [0, 0, 1, 0, 0]
    assert said.of(QueriesAnswered)[0].error_texts == ("predict: bad dream",)


async def test_a_failed_query_s_time_is_in_no_median(tmp_path: Path) -> None:
    order = an_order(a_sleepy_subject(fails_at=0), (a_run(queries=3),))
    (block,) = (await carried_out(order, tmp_path)).completed().blocks
    assert block.queries == 2


async def test_only_failed_calls_fail_the_run(tmp_path: Path) -> None:
    said = await carried_out(an_order(a_sleepy_subject(fails_at=0), (a_run(queries=1),)), tmp_path)
    assert (said.failed().error, said.failed().message) == ("predict", "predict: bad dream")


@pytest.mark.parametrize(
    ("option", "how"),
    [
        pytest.param("exits_at", "exited with 3", marks=pytest.mark.long),
        ("dies_at", "killed by SIGKILL"),
        ("raises_at", "a bug"),
    ],
)
async def test_a_worker_that_dies_is_said_with_what_it_handed_over(
    tmp_path: Path, option: str, how: str
) -> None:
    subject = a_sleepy_subject(predict_ms=60, **{option: 7})
    said = await carried_out(an_order(subject, (a_run(queries=20),)), tmp_path)
    failure = said.failed()
    assert failure.error == "worker_died"
    assert how in failure.message
    assert 0 < failure.tally.queries == sum(f.count for f in said.of(QueriesAnswered)) <= 7
    assert failure.tally.spans == 2 * failure.tally.queries


async def test_what_failed_before_a_worker_died_is_counted(tmp_path: Path) -> None:
    subject = a_sleepy_subject(predict_ms=60, fails_at=1, dies_at=7)
    said = await carried_out(an_order(subject, (a_run(queries=20),)), tmp_path)
    assert said.failed().error == "worker_died"
    assert said.failed().tally.failed_queries == 1


async def test_a_call_without_memory_ends_the_run_and_not_the_worker(tmp_path: Path) -> None:
    order = an_order(a_sleepy_subject(starves_at=1), (a_run(),))
    failure = (await carried_out(order, tmp_path)).failed()
    assert failure.error == "batch_size"
    assert "no such room" in failure.message


async def test_a_worker_that_hangs_is_ended(tmp_path: Path) -> None:
    subject = a_sleepy_subject(hangs_at=1)
    said = await carried_out(an_order(subject), tmp_path, silence_s=1.0)
    assert said.failed().error == "timeout"
    assert "longer than 1 s" in said.failed().message


async def test_a_run_past_its_time_out_is_ended(tmp_path: Path) -> None:
    run = a_run(queries=1000, timeout_s=0.5)
    said = await carried_out(an_order(a_sleepy_subject(predict_ms=20), (run,)), tmp_path)
    failure = said.failed()
    assert failure.error == "timeout"
    assert 0 < failure.tally.queries < 1000


async def test_a_model_that_never_opens_is_given_up(tmp_path: Path) -> None:
    order = an_order(a_sleepy_subject(open_hangs=True), (a_run(timeout_s=0.5),))
    said = await carried_out(order, tmp_path, silence_s=1.0)
    assert said.failed().error == "timeout"
    assert "opening and running took longer" in said.failed().message


async def test_a_frozen_worker_is_noticed(tmp_path: Path) -> None:
    order = an_order(a_sleepy_subject(predict_ms=50), (a_run(queries=100),))

    async def freeze(worker: WorkerProcess, kept: Kept, _: Execution) -> None:
        await kept.answered.wait()
        os.kill(worker.pid, signal.SIGSTOP)

    said = await _disturbed(order, tmp_path, freeze, silence_s=1.0)
    assert said.failed().error == "timeout"


def spoil_what_it_hands_over(worker: WorkerProcess) -> None:
    """Let a worker do its order while nobody reads, then overwrite its ring."""
    while worker.phase == RUNNING:
        time.sleep(0.01)
    os.pwrite(worker._handover.ring_fd, b"\xff" * 900_000, 128)


async def test_a_run_whose_ring_broke_is_not_complete(tmp_path: Path) -> None:
    order = an_order(a_sleepy_subject(predict_ms=1), (a_run(queries=300),))

    async def spoil(worker: WorkerProcess, kept: Kept, _: Execution) -> None:
        await kept.answered.wait()
        spoil_what_it_hands_over(worker)

    failure = (await _disturbed(order, tmp_path, spoil)).failed()
    assert failure.error == "worker_died"
    assert failure.message.startswith("a record of the ring is ")
    assert 0 < failure.tally.queries < 300


async def test_a_stopped_run_ends_and_the_worker_stays(tmp_path: Path) -> None:
    order = an_order(a_sleepy_subject(predict_ms=20), (a_run(queries=500), a_run("r1")))

    async def stop(_: WorkerProcess, kept: Kept, execution: Execution) -> None:
        await kept.answered.wait()
        await execution.stop("r0", "cancelled")

    said = await _disturbed(order, tmp_path, stop)
    assert (said.failed("r0").error, said.failed("r0").message) == ("stopped", "cancelled")
    assert said.completed("r1").tally.queries == 5


async def test_batches_come_while_the_run_goes_on(tmp_path: Path) -> None:
    order = an_order(a_sleepy_subject(predict_ms=20), (a_run(queries=40),))
    said = await carried_out(order, tmp_path)
    assert len(said.of(QueriesAnswered)) > 2
    assert isinstance(said.facts[-1], type(said.completed()))


async def test_rows_wait_in_the_ring_while_queries_are_timed(tmp_path: Path) -> None:
    """Publishing may use the model's cores, so nothing is taken before the run has ended."""
    worker = await WorkerProcess.start("w", limits(tmp_path, live_interval_s=3600.0))
    kept, order = Kept(), an_order(a_sleepy_subject(predict_ms=5), (a_run(queries=100_000),))
    execution = Execution(OutcomePublisher(order, kept), worker, MANIFESTS, 30.0)
    doing = asyncio.create_task(execution.carry_out())
    try:
        while worker._handover.filled < 0.01:
            assert not doing.done()
            await asyncio.sleep(0.01)
        before_kill = list(kept.facts)
        worker.kill()
        await doing
    finally:
        await worker.close()
    assert before_kill == []
    assert "SIGKILL" in kept.failed().message
    assert sum(fact.count for fact in kept.of(QueriesAnswered)) > 0
    assert isinstance(kept.facts[-1], RunFailed)


async def test_rows_that_fill_the_ring_are_taken_before_the_run_ends(tmp_path: Path) -> None:
    order = an_order(a_sleepy_subject(predict_ms=0.1), (a_run(queries=20_000),))
    said = await carried_out(
        order, tmp_path, live_interval_s=3600.0, ring_bytes=256_000, spool_bytes=0
    )
    assert said.completed().tally.dropped_batches == 0


async def test_what_finds_no_room_is_counted_and_marked(tmp_path: Path) -> None:
    order = an_order(runs=(a_run(queries=3000, level="framework"),))
    said = await carried_out(order, tmp_path, ring_bytes=60_000, spool_bytes=60_000)
    outcome = said.completed()
    assert outcome.tally.dropped_batches > 0
    assert sum(f.count for f in said.of(TraceCaptured)) == outcome.tally.spans
    assert sum(f.count for f in said.of(QueriesAnswered)) == outcome.tally.queries
    assert any("were dropped: ring and spool were full" in each for each in outcome.caveats)


async def _disturbed(order: WorkOrder, folder: Path, disturb: Any, **more: Any) -> Kept:
    """Carry out an order while `disturb` does its worst."""
    kept = Kept()
    worker = await WorkerProcess.start("w", limits(folder))
    execution = Execution(
        OutcomePublisher(order, kept), worker, MANIFESTS, more.get("silence_s", 30.0)
    )
    disturbing = asyncio.create_task(disturb(worker, kept, execution))
    try:
        await execution.carry_out()
        await disturbing
    finally:
        await worker.close()
    return kept


def test_batches_are_one_of_three_kinds() -> None:
    assert {TraceCaptured, QueriesAnswered, OutputsPredicted} == set(Batch.__args__)


async def test_lost_layers_cost_no_more_than_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder for profiles that is gone: as a full disk, the capture can't be had."""
    order = an_order(a_subject("tiny_cnn", "noise32"), (a_run("l", level="framework"), a_run("m")))

    async def take_scratch(worker: WorkerProcess, kept: Kept, _: Execution) -> None:
        shutil.rmtree(tmp_path / "w")

    said = await _disturbed(order, tmp_path, take_scratch)
    assert "No such file" in said.failed("l").message
    assert said.completed("m").tally.queries == 5
