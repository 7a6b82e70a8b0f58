"""Reference logs: what they hold, how they are asked for again, and what is said to differ."""

from typing import Any

import pytest

from mlscope.reproducing.difference import (
    NOT_COMPARED,
    NOT_SAME,
    SAME,
    Difference,
    verdict_on_predictions,
)
from mlscope.reproducing.differences import differences
from mlscope.reproducing.logs import (
    Altered,
    NotMeasured,
    checked,
    digest_of,
    file_text,
    reference_log,
    request_again,
)
from schemas.agent import Accelerator, Announcement, Hardware, Runtime
from schemas.analysis import Prediction
from schemas.encoding.codec import parse
from schemas.level import Level
from schemas.manifest import DatasetManifest, FrameworkNeed, ModelManifest, Port, Synthetic
from schemas.plan import Subject
from schemas.reference import ReferenceLog
from schemas.request import Evaluate
from schemas.status import EvaluationStatus, RunStatus

PORT = (Port(type="raw", shape=(-1, 4)),)
MODEL = ModelManifest(
    name="tiny",
    version="1.2.0",
    framework=FrameworkNeed(name="onnxruntime"),
    inputs=PORT,
    outputs=PORT,
)
DATASET = DatasetManifest(name="noise", synthetic=Synthetic(seed=7, shape=(4,)))
SUBJECT = Subject(model=MODEL, dataset=DATASET, framework="onnxruntime", options={"threads": 1})


def an_announcement(agent: str = "a1", **changes: Any) -> Announcement:
    hardware = Hardware(hostname="h", architecture="amd64", cpu_model="Xeon", cores=2)
    return Announcement(
        agent=agent,
        incarnation="i",
        hardware=hardware.model_copy(update=changes),
        runtimes=(Runtime(framework="onnxruntime", version=changes.get("version", "1.31.1")),),
        python_version="3.11.7",
    )


def a_status(state: str = "analyzed", agent: str = "a1") -> EvaluationStatus:
    run = RunStatus(
        run="b1-online-model",
        session="b1",
        agent=agent,
        scenario="online",
        level=Level.MODEL,
        batch_size=1,
        queries=5,
        state="recorded",
        answered=5,
    )
    return EvaluationStatus.model_validate(
        {
            "evaluation": "e1",
            "state": state,
            "model": "tiny",
            "requested_ns": 5,
            "request": Evaluate(model="tiny", key="mine", agents=(agent,), labels={"k": "v"}),
            "subject": SUBJECT,
            "agents": (agent,),
            "runs": (run,),
        }
    )


def a_prediction(sample: int, value: float, query: int = 0, label: str = "cat") -> Prediction:
    features = ({"label": label, "probability": value},)
    return Prediction(run="b1-online-model", query=query, sample=sample, features=features)


def a_log(
    *predictions: Prediction,
    median: float = 100.0,
    known: Announcement | None = None,
    hits: int = 441,
    **conditions: Any,
) -> ReferenceLog:
    accuracy = {"value": hits / 450, "hits": hits, "n": 450}
    run = {"run": "b1-online-model"}
    estimate = {"median": median, "median_low": median * 0.9, "median_high": median * 1.1}
    tables = {
        "conditions": [{**run, "threads": 1, "mlscope_version": "0.1.0", **conditions}],
        "latency": [{**run, **estimate}],
        "throughput": [{**run, "samples_per_s": 1e9 / median}],
        "accuracy": [{"session": "b1", "batch_size": 1, "metric": "top-1", **accuracy}],
    }
    known = known or an_announcement()
    answers = predictions or (a_prediction(0, 0.5), a_prediction(1, 0.25))
    return reference_log(a_status(agent=known.agent), [known], tables, answers)


def of(found: list[Difference], aspect: str) -> list[tuple[str, str, str]]:
    return [(each.name, each.before, each.now) for each in found if each.aspect == aspect]


def test_a_log_holds_what_was_resolved_and_measured() -> None:
    log = a_log()
    assert (log.request.model, log.request.dataset, log.request.key) == (MODEL, DATASET, "")
    assert log.machines[0].hardware.cpu == {"model": "Xeon", "cores": 2}
    assert log.machines[0].software.packages["onnxruntime"] == "1.31.1"
    (run,) = log.runs
    assert (run.latency["median"], run.conditions["threads"]) == (100.0, 1)
    assert len(run.predictions_digest) == 64
    assert log.mlscope_version == "0.1.0"


def test_a_dataset_that_came_with_the_request_is_taken_from_there() -> None:
    status = a_status()
    assert status.request is not None
    named = SUBJECT.model_copy(update={"dataset": DatasetManifest(name="noise")})
    request = status.request.model_copy(update={"dataset": DATASET})
    status = status.model_copy(update={"request": request, "subject": named})
    log = reference_log(status, [], {}, [])
    assert (log.subject.dataset, log.request.dataset) == (DATASET, DATASET)


def test_only_a_samples_first_answer_counts() -> None:
    again = a_prediction(0, 0.75, query=3)
    log = a_log(again, a_prediction(0, 0.5), a_prediction(1, 0.25))
    assert log.runs[0].predictions_digest == a_log().runs[0].predictions_digest
    assert [each.sample for each in log.answers] == [0, 1]


def test_what_was_not_analyzed_is_not_exported() -> None:
    with pytest.raises(NotMeasured, match="e1 is failed"):
        reference_log(a_status("failed"), [], {}, [])


def test_a_file_comes_back_as_it_was_or_is_refused() -> None:
    log = a_log()
    back = parse(ReferenceLog, log.model_validate_json(file_text(log)).model_dump(mode="json"))
    assert checked(back) == log
    altered = log.model_copy(update={"measured_ns": 6})
    assert digest_of(altered) != log.digest
    with pytest.raises(Altered):
        checked(altered)


def test_it_is_asked_for_again_with_everything_inline_on_any_agent() -> None:
    again = request_again(a_log(), wait_s=3.0)
    assert (again.model, again.dataset, again.options) == (MODEL, DATASET, {"threads": 1})
    assert (again.agents, again.key, again.wait_s) == ((), "", 3.0)
    assert again.labels == {"k": "v", "reproduces": "e1"}
    assert request_again(a_log(), ["a2"]).agents == ("a2",)


def test_the_same_again_differs_in_nothing_but_what_is_compared_anyway() -> None:
    found = differences(a_log(), a_log(median=105.0))
    assert {each.aspect for each in found} == {"performance", "accuracy", "predictions"}
    (accuracy,) = [each for each in found if each.aspect == "accuracy"]
    assert (accuracy.name, accuracy.now, accuracy.is_same) == ("top-1", "0.98, 441 of 450", True)
    (answers,) = [each for each in found if each.aspect == "predictions"]
    assert (answers.note, answers.is_same) == ("identical, 2 samples", True)
    median = next(each for each in found if each.name == "latency median")
    assert median.note == "ratio 1.050, the intervals overlap"
    assert median.before == "100 [90, 110]"


def test_people_get_figures_with_their_units() -> None:
    found = differences(a_log(median=194_012_345.0), a_log(median=1.2e9))
    told = {each.name: each.with_units for each in found}
    assert told["latency median"] == ("194 ms [174.6 ms, 213.4 ms]", "1.2 s [1.08 s, 1.32 s]")
    assert told["throughput samples_per_s"] == ("5.154 /s", "0.8333 /s")
    assert (told["top-1"], told["answers"]) == (None, None)
    median = next(each for each in found if each.name == "latency median")
    assert median.before == "1.94012e+08 [1.74611e+08, 2.13414e+08]"


def test_another_machine_and_version_are_said() -> None:
    gpu = (Accelerator(name="H200"),)
    now = a_log(
        known=an_announcement("a2", cores=8, accelerators=gpu, version="1.32.0"),
        threads=8,
        python_version="3.12",
        median=50.0,
    )
    found = differences(a_log(), now)
    hardware = {("cpu.cores", "2", "8"), ("accelerators.0.name", "", "H200")}
    assert hardware <= set(of(found, "hardware"))
    assert of(found, "software") == [("packages.onnxruntime", "1.31.1", "1.32.0")]
    assert ("threads", "1", "8") in of(found, "conditions")
    median = next(each for each in found if each.name == "latency median")
    assert (median.note, median.is_same) == ("ratio 0.500, the intervals do not overlap", False)


def test_answers_that_differ_are_measured() -> None:
    now = a_log(a_prediction(0, 0.5), a_prediction(1, 0.75, label="dog"))
    (answers,) = [each for each in differences(a_log(), now) if each.aspect == "predictions"]
    assert answers.note == (
        "1 of 2 samples differ, numbers by at most 0.5, 1 with other labels or sizes"
    )
    assert not answers.is_same
    (fewer,) = [
        each
        for each in differences(a_log(), a_log(a_prediction(0, 0.5)))
        if each.aspect == "predictions"
    ]
    assert fewer.note.endswith("2 samples then, 1 now")


def test_another_accuracy_is_said() -> None:
    found = differences(a_log(), a_log(hits=440))
    (accuracy,) = [each for each in found if each.aspect == "accuracy"]
    assert (accuracy.before, accuracy.now) == ("0.98, 441 of 450", "0.977778, 440 of 450")
    assert (accuracy.note, accuracy.is_same) == ("differs", False)


def test_a_run_that_is_missing_is_said() -> None:
    now = a_log().model_copy(update={"runs": ()})
    assert of(differences(a_log(), now), "runs") == [("paired", "1", "0")]


def without_digests(log: ReferenceLog) -> ReferenceLog:
    (run,) = log.runs
    bare = run.model_copy(update={"predictions_digest": ""})
    return log.model_copy(update={"runs": (bare,), "answers": ()})


@pytest.mark.parametrize("without", [(True, True), (True, False), (False, True)])
def test_runs_without_answers_are_not_called_the_same(without: tuple[bool, bool]) -> None:
    before, now = (without_digests(a_log()) if each else a_log() for each in without)
    found = differences(before, now)
    (answers,) = [each for each in found if each.aspect == "predictions"]
    assert answers.note.startswith("not compared: ")
    assert verdict_on_predictions(found) == NOT_COMPARED


def test_nothing_at_all_is_not_the_same() -> None:
    empty = a_log().model_copy(update={"runs": ()})
    assert verdict_on_predictions(differences(empty, empty)) == NOT_COMPARED
    assert verdict_on_predictions(differences(a_log(), a_log())) == SAME
    assert verdict_on_predictions(differences(a_log(), empty)) == NOT_SAME
    other = a_log(a_prediction(0, 0.5), a_prediction(1, 0.75))
    assert verdict_on_predictions(differences(a_log(), other)) == NOT_SAME


def test_one_run_of_two_without_answers_is_not_the_same() -> None:
    whole, bare = a_log(), without_digests(a_log())
    both = whole.model_copy(update={"runs": (*whole.runs, *bare.runs)})
    assert verdict_on_predictions(differences(both, both)) == NOT_COMPARED


def test_another_number_of_machines_is_said() -> None:
    log = a_log()
    fewer = log.model_copy(update={"machines": ()})
    assert of(differences(log, fewer), "hardware") == [
        ("machines", "1", "0"),
        ("machine", "a1", "none"),
    ]
    assert ("machine", "none", "a1") in of(differences(fewer, log), "hardware")


def test_samples_beyond_the_kept_bound_are_said_not_to_be_compared() -> None:
    log = a_log()
    bound = log.model_copy(update={"request": log.request.model_copy(update={"outputs": 2})})
    (answers,) = [each for each in differences(bound, bound) if each.aspect == "predictions"]
    assert answers.note == (
        "identical, 2 samples; up to 3 more samples were answered, but not kept and not compared"
    )
