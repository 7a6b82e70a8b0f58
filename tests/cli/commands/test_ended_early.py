"""Evaluations that end without a result, or are left: what is printed, and the exit code."""

import asyncio
from itertools import chain, repeat
from types import SimpleNamespace

import pytest

from cli import exits
from cli.commands import run
from cli.commands.reproduce import reproduce
from cli.commands.run import check_table
from cli.commands.watch import watch
from cli.inputs.request import request_from
from mlscope.bus.bus import Bus
from mlscope.client import AsyncClient, CommandRefused
from mlscope.reproducing.logs import file_text
from mlscope.settings import Settings
from schemas.evaluation import EvaluationCancelled, EvaluationFailed
from schemas.message import Fact
from schemas.request import AgentReason, Refused, ShowTables
from schemas.values.identity import keyed_evaluation_id
from tests.cli.in_process import arguments, bus, printed, server, standing
from tests.mlscope.client.answers import answering
from tests.mlscope.reproducing.reference_logs import a_log
from tests.stand_ins import StandIns
from tests.stories import LATENCY, E, a_run, beginning, ending, queries

__all__ = ["bus", "server", "standing"]

ID = keyed_evaluation_id("k")


async def run_command(*words: str) -> int:
    """Run `mlscope run` for the evaluation `ID`."""
    parsed = arguments("run", "tiny", "--key", "k", *words)
    return await run._run(parsed, request_from(parsed))


def fails(cause: str) -> list[Fact]:
    reason = AgentReason(agent="a1", reason="too small")
    return [EvaluationFailed(evaluation=ID, cause=cause, agents=(reason,))]


ENDS = [
    (fails("no agent fits"), exits.NO_AGENT, "  a1: too small"),
    (fails("no agent is known"), exits.NO_AGENT, "no agent is known"),
    (fails("no run was measured"), exits.FAILED, "no run was measured"),
    ([EvaluationCancelled(evaluation=ID, reason="enough")], exits.FAILED, "enough"),
]


@pytest.mark.usefixtures("bus")
@pytest.mark.parametrize(("story", "code", "said"), ENDS)
async def test_run_and_watch_tell_an_evaluation_without_agents_from_one_that_failed(
    standing: StandIns,
    story: list[Fact],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    standing.then = lambda _: story
    for ended in (run_command(), watch(arguments("watch", ID))):
        assert await ended == code
        printed = capsys.readouterr()
        assert said in printed.err
        assert printed.out == ""


@pytest.mark.usefixtures("bus")
@pytest.mark.parametrize(("story", "code", "said"), ENDS)
async def test_a_repetition_ends_like_the_run_that_it_repeats(
    standing: StandIns,
    story: list[Fact],
    code: int,
    said: str,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path_factory.mktemp("logs") / "log.json"
    path.write_text(file_text(a_log()))
    standing.then = lambda evaluation: [
        fact.model_copy(update={"evaluation": evaluation}) for fact in story
    ]
    assert await reproduce(arguments("reproduce", str(path))) == code
    assert said in capsys.readouterr().err


@pytest.fixture
async def running(
    standing: StandIns, bus: Bus, capsys: pytest.CaptureFixture[str]
) -> "asyncio.Task[int]":
    """Start a run, and return once 5 of its queries are shown."""
    answered = queries([1000] * 5, evaluation=ID).model_copy(
        update={"status": bytes([0] * 4 + [1])}
    )
    standing.then = lambda _: [*beginning(ID)[1:], a_run("r0", ID)[0]]
    task = asyncio.create_task(run_command())
    await printed(capsys, "running")
    await standing.tell(answered)
    await printed(capsys, "queries")
    return task


async def test_ctrl_c_cancels_and_shows_what_was_answered_until_then(
    running: "asyncio.Task[int]", standing: StandIns, capsys: pytest.CaptureFixture[str]
) -> None:
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    said = capsys.readouterr().err
    assert standing.cancelled == [ID]
    assert f"cancelling {ID} (press Ctrl-C again to leave it running)" in said
    assert "  r0: 4 queries, 1 failed, p50 " in said
    assert f"kept: `mlscope show {ID}`" in said


async def test_ctrl_c_shows_the_tables_of_what_was_measured_until_then(
    running: "asyncio.Task[int]", standing: StandIns, capsys: pytest.CaptureFixture[str]
) -> None:
    standing.then_cancelled = lambda _: [EvaluationCancelled(evaluation=ID)]
    running.cancel()
    said = await printed(capsys, "its tables follow")
    assert "once the answers of runs that were cut off are stored; waiting up to 90 s" in said
    await standing.tell(a_run("r0", ID)[2], *ending(ID, runs=1))
    with pytest.raises(asyncio.CancelledError):
        await running
    shown = capsys.readouterr()
    assert shown.out.startswith(LATENCY.title)
    assert f"0 of 2 runs complete, 1 cut off, and analyzed: mlscope analyze {ID}" in shown.err
    assert f"kept: `mlscope show {ID}`" in shown.err
    assert "live, not analyzed" not in said + shown.err


async def test_ctrl_c_waits_until_a_silent_agent_is_given_up(
    running: "asyncio.Task[int]",
    standing: StandIns,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    readings_s = chain([0.0], repeat(Settings.read({}).batch_deadline_s))
    monkeypatch.setattr("cli.commands.run.time", SimpleNamespace(monotonic=readings_s.__next__))
    standing.then_cancelled = lambda _: [EvaluationCancelled(evaluation=ID)]
    running.cancel()
    await printed(capsys, "its tables follow")
    await standing.tell(a_run("r0", ID)[2], *ending(ID, runs=1))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert capsys.readouterr().out.startswith(LATENCY.title)


async def test_a_cancellation_that_is_refused_is_said_and_the_answers_are_shown(
    running: "asyncio.Task[int]",
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def refuse(*_: object) -> None:
        raise CommandRefused(Refused(error="conflict", message="it has ended"))

    monkeypatch.setattr(AsyncClient, "cancel", refuse)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    said = capsys.readouterr().err
    assert "not cancelled: it has ended" in said
    assert "  r0: 4 queries" in said


@pytest.mark.parametrize("field", ["evaluation", ""])
async def test_an_evaluation_that_has_no_tables_yet_says_nothing_about_their_names(
    bus: Bus, field: str
) -> None:
    refused = Refused(error="unknown", message=f"no evaluation {E}", field=field)
    asked = await answering(bus, ShowTables, lambda _: refused)
    await check_table(AsyncClient(bus=bus), E, "latency")
    assert [(command.evaluation, command.tables) for command in asked] == [(E, ("latency",))]


async def test_a_wrong_name_of_a_table_is_refused(bus: Bus) -> None:
    refused = Refused(error="unknown", message="no table is called x", field="tables")
    await answering(bus, ShowTables, lambda _: refused)
    with pytest.raises(CommandRefused, match="no table is called x"):
        await check_table(AsyncClient(bus=bus), E, "x")


async def test_without_an_analyzer_the_name_is_checked_when_all_is_measured(bus: Bus) -> None:
    await check_table(AsyncClient(bus=bus), E, "latency")
