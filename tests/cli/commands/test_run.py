"""`run`, `watch`, `cancel`: data on stdout, progress on stderr, exit codes as documented."""

import asyncio
import csv
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli import exits
from cli.commands.run import expected_of
from mlscope.bus.errors import NoReply
from schemas.evaluation import EvaluationFailed
from schemas.message import Fact
from schemas.request import AgentReason, Evaluate
from schemas.run import RunFailed
from schemas.status import EvaluationStatus
from tests.cli.conftest import CommandLine, interrupted
from tests.stand_ins import StandIns
from tests.stories import AGENT, FAILURES, LATENCY, a_run, beginning, ending, whole_story

Story = Callable[[str], list[Fact]]


def goes_well(evaluation: str) -> list[Fact]:
    return whole_story(evaluation)[1:]


def one_run_fails(evaluation: str) -> list[Fact]:
    failed = RunFailed(
        evaluation=evaluation, run="r0", attempt=1, agent=AGENT, error="open", message="no file"
    )
    started = a_run("r0", evaluation)[0]
    after = [*a_run("r1", evaluation), *ending(evaluation)[1:]]
    return [*beginning(evaluation)[1:], started, failed, *after]


def fails(evaluation: str) -> list[Fact]:
    reason = AgentReason(agent=AGENT, reason="gone")
    return [EvaluationFailed(evaluation=evaluation, cause="no run was measured", agents=(reason,))]


async def test_a_run_prints_its_result_and_nothing_else(
    mlscope: CommandLine, standing: StandIns
) -> None:
    standing.then = goes_well
    ended = await mlscope("run", "tiny", "--scenario", "online:queries=5", "--batch-size", "1,2")
    assert ended.code == exits.OK
    assert ended.out.splitlines()[0] == "Latency"
    assert "5 ms" in ended.out
    assert "evaluation " in ended.err
    assert "evaluation " not in ended.out


async def test_a_run_says_how_long_it_will_take_as_earlier_ones_did(
    mlscope: CommandLine, standing: StandIns
) -> None:
    standing.then = goes_well
    assert "expected" not in (await mlscope("run", "tiny")).err
    standing.expected_s = 40.2
    text = "expected: about 40 s (from 6 earlier runs of this model on this agent)"
    assert text in (await mlscope("run", "tiny", "--batch-size", "4")).err
    assert standing.matched[-1].batch_sizes == (4,)
    assert "expected" not in (await mlscope("run", "tiny", "--quiet")).err


async def test_a_dataset_named_as_a_folder_here_is_asked_for_with_a_path(
    mlscope: CommandLine, standing: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pets").mkdir()
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    digits = {"kind": "dataset", "name": "digits", "synthetic": {"samples": 3}}
    standing.catalog = {"datasets": [digits]}
    ended = await mlscope("run", "tiny", "--detach", "--dataset", "pets")
    assert (ended.code, standing.requested) == (exits.USAGE, [])
    assert ended.err == "mlscope run: --dataset pets: the catalog has none; did you mean ./pets?\n"
    ended = await mlscope("run", "tiny", "--detach", "--dataset", "digits")
    assert ended.code == exits.OK


class SilentBus:
    """A bus on which nobody answers."""

    waited_s = 0.0

    async def ask(self, subject: str, _: bytes, *, timeout_s: float) -> bytes:
        """Note how long an answer is waited for."""
        self.waited_s = timeout_s
        raise NoReply(subject)


async def test_progress_waits_a_second_at_most_for_the_expected_time() -> None:
    bus = SilentBus()
    client: Any = SimpleNamespace(bus=bus)
    assert await expected_of(client, Evaluate(model="tiny")) == ""
    assert bus.waited_s == 1.0


async def test_a_result_says_why_queries_failed(mlscope: CommandLine, standing: StandIns) -> None:
    standing.then = goes_well
    standing.held = [LATENCY, FAILURES]
    assert "decode: torn" in (await mlscope("run", "tiny")).out
    standing.held = [LATENCY, FAILURES.model_copy(update={"rows": ()})]
    assert "Why queries failed" not in (await mlscope("run", "tiny")).out


async def test_json_holds_status_and_tables(mlscope: CommandLine, standing: StandIns) -> None:
    standing.then = goes_well
    told = (await mlscope("run", "tiny", "-o", "json")).json()
    assert told["status"]["state"] == "analyzed"
    assert told["tables"]["latency"][1] == {"run": "r1", "p50": None}


async def test_csv_is_one_table(mlscope: CommandLine, standing: StandIns) -> None:
    standing.then = goes_well
    ended = await mlscope("run", "tiny", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    assert rows[0] == {"run": "r0", "p50": "5000000.0"}


@pytest.mark.parametrize(
    ("story", "code", "said"),
    [
        (goes_well, exits.OK, ""),
        (one_run_fails, exits.FAILED, "open: no file"),
        (fails, exits.FAILED, "a1: gone"),
    ],
)
async def test_the_end_is_the_exit_code(
    mlscope: CommandLine, standing: StandIns, story: Story, code: int, said: str
) -> None:
    standing.then = story
    ended = await mlscope("run", "tiny", "--quiet")
    assert (ended.code, said in ended.err) == (code, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["unknown-model"], exits.USAGE, "no such model"),
        (["too-large"], exits.NO_AGENT, "a1: too little memory"),
        (["tiny", "--batch-size", "0"], exits.USAGE, "batch_sizes"),
        (["tiny", "--batch-size", "one"], exits.USAGE, "1,2,4"),
        (["tiny", "--trace-level", "deep"], exits.USAGE, "hardware"),
        (["tiny", "--option", "threads"], exits.USAGE, "expected KEY=VALUE"),
        (["nosuch.yml"], exits.USAGE, "No such file"),
        (["tiny", "--blocks", "x"], exits.USAGE, "LEAST"),
        ([], exits.USAGE, "MODEL"),
    ],
)
async def test_wrong_arguments_are_named(
    mlscope: CommandLine, standing: StandIns, arguments: list[str], code: int, said: str
) -> None:
    ended = await mlscope("run", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err


async def test_a_table_that_there_is_not_is_refused_before_anything_is_measured(
    mlscope: CommandLine, standing: StandIns
) -> None:
    standing.then = goes_well
    ended = await mlscope("run", "tiny", "--table", "nosuch")
    assert (ended.code, ended.out, standing.requested) == (exits.USAGE, "", [])
    assert "no table is called nosuch" in ended.err


async def test_a_table_is_named_in_any_case(mlscope: CommandLine, standing: StandIns) -> None:
    standing.then = goes_well
    ended = await mlscope("run", "tiny", "--table", "Latency", "--quiet")
    assert (ended.code, "5 ms" in ended.out) == (exits.OK, True)


async def test_caveats_of_tables_fail_a_strict_run_and_are_named(
    mlscope: CommandLine, standing: StandIns
) -> None:
    standing.then = goes_well
    standing.held = [LATENCY.model_copy(update={"caveats": ("the clock was set",)})]
    assert (await mlscope("run", "tiny")).code == exits.OK
    ended = await mlscope("run", "tiny", "--strict", "--table", "latency")
    assert ended.code == exits.INVALID
    assert "--strict: latency: the clock was set" in ended.err


async def test_waiting_for_an_agent_in_vain_ends_as_having_none(
    mlscope: CommandLine, standing: StandIns
) -> None:
    standing.then = lambda evaluation: [
        EvaluationFailed(evaluation=evaluation, cause="no agent fits")
    ]
    assert (await mlscope("run", "tiny", "--wait", "1")).code == exits.NO_AGENT


async def test_every_field_travels(mlscope: CommandLine, standing: StandIns) -> None:
    words = """
        run tiny --detach -o json --framework 'onnxruntime:>=1.16 <2'
        --scenario poisson:rate_hz=12.5,queries=7 --scenario online
        --batch-size 1,2,4 --trace-level framework --agent a1 --agent a2
        --all-agents --device cpu --need memory_bytes=1000 --dataset photos
        --option threads=2 --warmup 1 --blocks 2:5:0.1 --pacing local
        --outputs 3 --run-timeout 9 --wait 8 --label why=test
        --collector perf=off --serialised --levels none,model
    """
    ended = await mlscope(*shlex.split(words))
    status = await _status(mlscope, ended.json()["evaluation"])
    assert status.request is not None
    told = status.request.model_dump(mode="json", exclude={"key"})
    assert told == {
        "model": "tiny",
        "framework": {"name": "onnxruntime", "version": ">=1.16 <2"},
        "system": {**told["system"], "device": "cpu", "memory_bytes": 1000},
        "agents": ["a1", "a2"],
        "spread": "all",
        "scenarios": [
            {"name": "poisson", "parameters": {"rate_hz": 12.5, "queries": 7}},
            {"name": "online", "parameters": {}},
        ],
        "batch_sizes": [1, 2, 4],
        "trace_level": "framework",
        "levels": ["none", "model"],
        "dataset": "photos",
        "options": {"threads": 2},
        "warmup": 1,
        "blocks": {"least": 2, "most": 5, "interval": 0.1, "budget_s": 0.0, "of": "median"},
        "pacing": "local",
        "outputs": 3,
        "run_timeout_s": 9.0,
        "wait_s": 8.0,
        "visibility": "cluster",
        "labels": {"why": "test"},
        "collectors": {"perf": False},
        "serialised": True,
        "variants": [],
    }


async def test_a_manifest_s_file_travels_inline(
    mlscope: CommandLine, standing: StandIns, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(
        "{name: mine, version: 1.0.0, framework: {name: onnxruntime},"
        " inputs: [{type: raw}], outputs: [], model: {graph_path: m.onnx}}"
    )
    ended = await mlscope("run", str(path), "--detach")
    assert (await _status(mlscope, ended.out.strip())).model == "mine:1.0.0"


async def test_ctrl_c_cancels_the_evaluation(mlscope: CommandLine, standing: StandIns) -> None:
    standing.then = lambda evaluation: beginning(evaluation)[1:]
    process = await mlscope.start("run", "tiny")
    assert process.stderr is not None
    said = (await process.stderr.readline()).decode()
    ended = await interrupted(process)
    assert ended.code == exits.INTERRUPTED
    assert standing.cancelled == [said.split()[1]]
    assert f"kept: `mlscope show {said.split()[1]}`" in ended.err
    assert "Traceback" not in ended.err, ended.err


async def test_watching_prints_events_and_ctrl_c_only_detaches(
    mlscope: CommandLine, standing: StandIns
) -> None:
    standing.then = lambda evaluation: beginning(evaluation)[1:]
    evaluation = (await mlscope("run", "tiny", "--detach")).out.strip()
    process = await mlscope.start("watch", evaluation, "--events")
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line, await process.communicate()
    first = json.loads(line)
    assert first["status"]["state"] == "planned"
    ended = await interrupted(process)
    assert (ended.code, standing.cancelled) == (exits.INTERRUPTED, [])


async def test_cancel_names_the_evaluation(mlscope: CommandLine, standing: StandIns) -> None:
    assert (await mlscope("cancel", "abc", "--reason", "enough")).code == exits.OK
    assert standing.cancelled == ["abc"]


async def test_without_a_cluster_the_next_step_is_said(tmp_path: Path) -> None:
    ended = await CommandLine(MLSCOPE_DATA=str(tmp_path))("ls", "models")
    assert ended.code == exits.FAILED
    assert "mlscope up" in ended.err


async def test_a_wrong_key_is_an_auth_failure_or_unreachable(
    mlscope: CommandLine, standing: StandIns, tmp_path: Path
) -> None:
    ended = await mlscope("ls", "models", "--seed-file", str(tmp_path / "none.nk"))
    assert ended.code == exits.FAILED
    assert "none.nk" in ended.err


async def _status(mlscope: CommandLine, evaluation: str) -> EvaluationStatus:
    async with asyncio.timeout(60):
        shown = await mlscope("show", evaluation, "-o", "json")
    return EvaluationStatus.model_validate(shown.json())
