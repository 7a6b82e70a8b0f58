"""Files to requests and answers to files; pages of predictions to one."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.client.asynchronous import request_of
from mlscope.client.errors import EvaluationRefused
from mlscope.client.predicting import (
    MOST_FILES,
    MOST_INLINE_BYTES,
    Upload,
    comparison_of,
    files_as_uploads,
    matched,
    predictions_of,
    requests_of,
)
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.analysis import Compared, FailedQuery, Prediction, Predictions
from schemas.encoding.codec import decode_body, encode_body
from schemas.level import Level
from schemas.request import PREDICT, PURPOSE, Compare, ShowPredictions
from schemas.status import EvaluationStatus, RunStatus


def _uploads(count: int, size: int = 1) -> list[Upload]:
    return [Upload(f"f{n}", bytes(size)) for n in range(count)]


def test_a_request_carries_a_query_a_file_and_asks_for_no_time() -> None:
    uploads = [Upload("a.jpg", b"abc"), Upload("b.jpg", address="artifact://x", sha256="sha256:0")]
    ((some, fields),) = requests_of(uploads, {"agents": ["a1"], "labels": {"by": "me"}})
    request = request_of("lite0", fields)
    assert some == uploads
    assert request.scenarios[0].parameters == {"queries": 2}
    assert (request.outputs, request.batch_sizes, request.warmup) == (2, (1,), 0)
    assert (request.agents, request.labels) == (("a1",), {"by": "me", PURPOSE: PREDICT})
    assert not isinstance(request.dataset, str)
    first, second = request.dataset.samples
    assert base64.b64decode(first.content) == b"abc"
    assert (second.path, second.sha256, second.content) == ("artifact://x", "sha256:0", "")


def test_files_are_private_unless_asked_otherwise() -> None:
    ((_, silent),) = requests_of(_uploads(1), {})
    ((_, shown),) = requests_of(_uploads(1), {"visibility": "cluster"})
    assert request_of("lite0", silent).visibility == "private"
    assert request_of("lite0", shown).visibility == "cluster"


def test_a_label_that_predictions_have_themselves_is_refused() -> None:
    with pytest.raises(EvaluationRefused, match="give yours another key") as refused:
        list(requests_of(_uploads(1), {"labels": {PURPOSE: "release"}}))
    assert refused.value.field == "labels.purpose"


@pytest.mark.parametrize(
    ("uploads", "sizes"),
    [
        (_uploads(MOST_FILES + 1), [MOST_FILES, 1]),
        (_uploads(3, MOST_INLINE_BYTES // 2), [2, 1]),
        (_uploads(2, MOST_INLINE_BYTES), [1, 1]),
        ([Upload("empty")], []),
    ],
    ids=["many", "large", "largest", "empty"],
)
def test_files_are_shared_out_as_they_fit(uploads: Sequence[Upload], sizes: list[int]) -> None:
    assert [len(some) for some, _ in requests_of(uploads, {})] == sizes


def test_files_are_paths_or_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert files_as_uploads([tmp_path / "a"]) == [Upload(str(tmp_path / "a"), b"abc")]
    assert files_as_uploads({"b": b"x"}) == [Upload("b", b"x")]
    with pytest.raises(FileNotFoundError):
        files_as_uploads([tmp_path / "none"])


def _status(cause: str = "", run_cause: str = "") -> EvaluationStatus:
    run = RunStatus(
        run="r0",
        session="s0",
        agent="vm",
        scenario="online",
        level=Level.NONE,
        batch_size=1,
        queries=3,
        cause=run_cause,
    )
    return EvaluationStatus(
        evaluation="e1",
        state="analyzed",
        model="net:1.0.0",
        requested_ns=1,
        cause=cause,
        runs=(run,),
    )


def test_each_file_gets_its_answer_or_its_reason() -> None:
    cat = Prediction(run="r0", query=0, sample=0, features=({"label": "cat"},))
    failed = FailedQuery(run="r0", query=1, error="sample 1: decode: torn")
    found = Predictions(evaluation="e1", predictions=(cat,), total=1, failed=(failed,))
    told = matched(_uploads(3), _status(), found)
    assert [(each.file, each.error) for each in told] == [
        ("f0", ""),
        ("f1", "decode: torn"),
        ("f2", "no answer came"),
    ]
    assert told[0].features == ({"label": "cat"},)


@pytest.mark.parametrize("status", [_status("no agent"), _status(run_cause="no agent")])
def test_what_ended_it_all_is_every_file_s_reason(status: EvaluationStatus) -> None:
    assert [each.error for each in matched(_uploads(2), status, None)] == ["no agent"] * 2


async def _answering(bus: Bus, subject: str, answer: Any) -> list[Any]:
    asked: list[Any] = []

    async def answerer(question: ReceivedCommand) -> bytes:
        asked.append(question.body)
        return encode_body(answer(question.body))

    await bus.answer(f"mlscope.v1.request.{subject}", answerer, queue=None)
    return asked


@pytest.mark.parametrize(("limit", "count"), [(0, 7), (4, 4), (99, 7)])
async def test_pages_become_one(limit: int, count: int) -> None:
    every = [Prediction(run="r0", query=n, sample=n) for n in range(7)]

    def answer(body: bytes) -> Predictions:
        wanted = decode_body(ShowPredictions, body)
        end = wanted.offset + min(wanted.limit or 3, 3)
        return Predictions(
            evaluation="e1", predictions=tuple(every[wanted.offset : end]), total=len(every)
        )

    server = MemoryServer()
    async with connect(server, "analyzer") as analyzer, connect(server, "requester") as bus:
        await _answering(analyzer, "predictions", answer)
        found = await predictions_of(bus, "e1", limit=limit)
    assert [each.sample for each in found.predictions] == list(range(count))


async def test_a_run_is_named_behind_its_evaluation() -> None:
    def answer(body: bytes) -> Compared:
        asked = decode_body(Compare, body)
        return Compared(
            **asked.model_dump(include={"first", "second", "first_run", "second_run"}), tables=()
        )

    server = MemoryServer()
    async with connect(server, "analyzer") as analyzer, connect(server, "requester") as bus:
        await _answering(analyzer, "compare", answer)
        found = await comparison_of(bus, "e1/r7", "e2")
    assert (found.first, found.first_run, found.second, found.second_run) == ("e1", "r7", "e2", "")
