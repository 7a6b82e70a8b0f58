"""What the reader of a remote load takes for answers."""

import msgpack
import numpy as np
import pytest

from services.scheduler.remote_load.query_answers import QueryAnswers
from services.scheduler.remote_load.query_status import ANSWERED, FAILED

WELL = msgpack.packb({"status": ANSWERED, "service_ns": 5})


def test_a_query_answered_twice_counts_once() -> None:
    answers = QueryAnswers(2)
    for _ in range(2):
        answers.add("inbox.0", WELL, 10)
    assert (answers.missing, answers.rows) == (1, [(0, 10, 5, ANSWERED)])


@pytest.mark.parametrize("last", ["2", "-1", "x", "", "²", "9" * 30, "9" * 5000])
def test_an_answer_to_no_query_of_the_load_changes_nothing(last: str) -> None:
    answers = QueryAnswers(2)
    answers.add(f"inbox.{last}", WELL, 10)
    assert (answers.missing, answers.rows) == (2, [])


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        b"",
        msgpack.packb(7),
        msgpack.packb({"status": 300, "service_ns": 1}),
        msgpack.packb({"status": 0, "service_ns": 2**63}),
        msgpack.packb({"status": float("inf"), "service_ns": 1}),
        msgpack.packb({"status": 0, "service_ns": 1, "failed": -1}),
    ],
)
def test_an_answer_nobody_can_read_is_a_failed_query(body: bytes) -> None:
    answers = QueryAnswers(1)
    answers.add("inbox.0", body, 10)
    assert (answers.missing, answers.rows) == (0, [(0, 10, -1, FAILED)])


def test_an_answer_in_part_keeps_its_status_its_reasons_and_how_many_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[bytes] = []
    monkeypatch.setattr("services.scheduler.remote_load.query_answers.write_message", told.append)
    answers = QueryAnswers(2)
    part = {"status": ANSWERED, "service_ns": 5, "failed": 2, "error": "sample 3: decode: torn"}
    answers.add("inbox.0", msgpack.packb(part), 10)
    answers.add("inbox.1", WELL, 11)
    answers.report()
    columns = msgpack.unpackb(told[0], strict_map_key=False)
    assert np.frombuffer(columns["status"], "<i1").tolist() == [ANSWERED, ANSWERED]
    assert (columns["failed"], columns["errors"]) == ({0: 2}, {0: "sample 3: decode: torn"})


def test_an_error_of_megabytes_is_kept_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bytes] = []
    monkeypatch.setattr("services.scheduler.remote_load.query_answers.write_message", told.append)
    answers = QueryAnswers(1)
    failed = {"status": FAILED, "service_ns": -1, "error": "x" * 1_000_000}
    answers.add("inbox.0", msgpack.packb(failed), 10)
    answers.report()
    assert len(told[0]) < 3000
