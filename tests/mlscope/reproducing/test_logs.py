"""Reference logs: what they hold, and how they are asked for again."""

import pytest

from mlscope.reproducing.logs import (
    Altered,
    NotMeasured,
    checked,
    digest_of,
    file_text,
    reference_log,
    request_again,
)
from schemas.encoding.codec import parse
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.reference import ReferenceLog
from tests.mlscope.reproducing.reference_logs import (
    DATASET,
    MODEL,
    SUBJECT,
    a_log,
    a_prediction,
    a_status,
)


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


def test_an_evaluation_of_several_frameworks_is_asked_for_with_all_of_them() -> None:
    """Options of one framework are not asked of the others."""
    manifest = ModelManifest.model_validate(
        MODEL.model_dump() | {"frameworks": [{"name": "openvino"}]}
    )
    status = a_status()
    assert status.request is not None
    request = status.request.model_copy(update={"spread": "all", "options": {"precision": "f32"}})
    subject = SUBJECT.model_copy(update={"manifest": manifest})
    log = reference_log(
        status.model_copy(update={"request": request, "subject": subject}), [], {}, []
    )
    again = request_again(log)
    assert (again.model, again.spread, again.options) == (manifest, "all", {"precision": "f32"})
