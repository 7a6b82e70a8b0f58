"""How floods are made, and what is read of them: gaps between answers, lost rows, refusals."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.floods import __main__ as floods
from benchmarks.floods.probing import (
    Answer,
    Probe,
    Question,
    answers_since_s,
    longest_gap_s,
)
from benchmarks.floods.refusals import VIEWER, PushedOut, push_out
from benchmarks.floods.rounds import NewLines, Round, lost_rows
from benchmarks.floods.sending import Flood, sending
from cli.cluster.keys.person_files import ensure_person
from cli.cluster.servers import nats_server as nats_server_module
from cli.cluster.servers.nats_conf import MIB
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.inboxes import inbox_prefix
from mlscope.people import people_folder
from schemas.level import Level
from schemas.status import EvaluationStatus, RowCounts, RunStatus

QUIET = Round(
    flood="quiet",
    sent_mib_s=0.0,
    gaps_s={"registry": 0.2},
    again_s=0.1,
    broker_mib=50.0,
    slow_consumers=0,
    reconnections=0,
    restarts=0,
    state="analyzed",
    lost_rows=0,
    unanswered=0,
)


def test_a_gap_is_the_longest_time_without_an_answer_in_the_window() -> None:
    answers = [Answer(at_s, at_s + 0.1) for at_s in (0.9, 3.9, 1.9, 9.9)]
    assert longest_gap_s(answers, 1.5, 5.0) == pytest.approx(2.0)
    assert longest_gap_s(answers, 4.5, 9.0) == pytest.approx(4.5), "no answer at all"


def test_what_was_asked_before_the_end_does_not_show_that_all_is_well() -> None:
    answers = [Answer(0.9, 1.4), Answer(1.1, 1.6), Answer(1.3, 1.5)]
    assert answers_since_s(answers, 1.0) == 1.5
    assert answers_since_s(answers, 2.0) == math.inf


def wait_for(is_there: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not is_there():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_flooded_broker_is_asked(data_folder: Path) -> None:
    people = people_folder(data_folder)
    ensure_person(people, VIEWER)
    flood = Flood("small", VIEWER.name, "mlscope.v1.request.match", 1024, 2)
    with NatsServer(data_folder) as server:
        inbox, seed = inbox_prefix("provisioner"), server.seeds["provisioner"]
        # The broker itself answers it.
        probe = Probe(Question("streams", seed, "$JS.API.STREAM.NAMES", inbox), server.url)
        probe.start()
        flooding = (people / f"{VIEWER.name}.nk").read_text("ascii").strip()
        with sending(flood, server.url, flooding) as sent:
            wait_for(lambda: sent.value > 100)
            wait_for(lambda: len(probe.answers) > 1)
        probe.end()
    first, second = probe.answers[:2]
    assert first.asked_s < first.answered_s
    assert second.asked_s >= first.asked_s + 0.2


def test_refusals_push_the_oldest_line_out(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_server_module, "MAX_LOG_BYTES", MIB)
    pushed_out = push_out(data_folder, "forbidden subject of 3,900 characters")
    assert 3900 < pushed_out.bytes_each < 4400
    assert pushed_out.refusals == pytest.approx(2 * MIB / pushed_out.bytes_each)
    assert 0 < pushed_out.took_s < 60


def test_the_lines_of_a_log_that_began_anew_count(tmp_path: Path) -> None:
    grown, anew = tmp_path / "grown.log", tmp_path / "anew.log"
    for log in (grown, anew):
        log.write_bytes(b"a line of before\n" * 9)
    lines = NewLines(tmp_path)
    grown.write_bytes(grown.read_bytes() + b"one line\n")
    anew.write_bytes(b"another line\n")
    assert lines.count(b"line") == 2


@pytest.mark.parametrize(
    ("stored", "lost"),
    [(None, 130), (RowCounts(queries=98, spans=27), 5), (RowCounts(queries=100, spans=30), 0)],
)
def test_rows_that_are_not_stored_are_lost(stored: RowCounts | None, lost: int) -> None:
    run = RunStatus(
        run="r0",
        session="s0",
        agent="a",
        scenario="poisson",
        level=Level.MODEL,
        batch_size=1,
        queries=100,
        announced=RowCounts(queries=100, spans=30),
        stored=stored,
    )
    status = EvaluationStatus(
        evaluation="e", state="analyzed", model="m", requested_ns=1, runs=(run,)
    )
    assert lost_rows(status) == lost


def test_the_table_has_the_median_and_the_most_of_each_flood() -> None:
    rounds = [
        replace(QUIET, flood=flood, gaps_s={"registry": gap_s})
        for gap_s in (1.0, 4.0, 2.0)
        for flood in ("quiet", "uploads")
    ]
    rows = [line.split() for line in floods.table_of(rounds).splitlines()]
    assert rows[0] == ["median", "(most)", "quiet", "uploads"]
    assert ["registry", "2.0", "(4.0)", "2.0", "(4.0)"] in rows


@pytest.mark.parametrize(
    ("bad", "missed"),
    [({}, 0), ({"restarts": 1}, 1), ({"state": "failed", "lost_rows": 3, "unanswered": 3}, 2)],
)
def test_restarts_and_what_an_evaluation_lacks_are_missed(
    bad: dict[str, object], missed: int
) -> None:
    assert floods.missed_by([QUIET, replace(QUIET, **bad)]) == missed  # type: ignore[arg-type]


def test_the_table_of_refusals_has_medians() -> None:
    repeats = [PushedOut(200.0, 80_000.0, took_s) for took_s in (0.4, 0.9, 0.5)]
    assert floods.refusals_of({"wrong key": repeats}).splitlines()[1].split() == [
        *("wrong", "key", "200", "80,000", "0.5", "(0.4", "…", "0.9)")
    ]
