"""`mlscope top`: agents and what runs, once for scripts."""

import pytest

from cli import exits
from cli.commands.top import run_row, screen
from mlscope.client.meter import Reading
from mlscope.client.watching import Progress
from mlscope.evaluation.fold import fold
from mlscope.evaluation.status import status_of
from schemas.status import AgentStatus
from services.agent.host.announcing import announcement
from tests.cli.conftest import CommandLine
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning


def _progress() -> Progress:
    status = status_of(fold([*beginning(), *a_run("r0")]))
    reading = Reading("r1", 1, 40, 2, 300, 5_000_000, 9_000_000)
    return Progress(status, "", {"r1": reading})


def test_what_runs_has_its_figures() -> None:
    cells = run_row(_progress())
    assert cells[0] == E
    assert cells[3:6] == ("1/2", "40", "2")
    assert cells[6:] == ("5 ms", "9 ms (few queries)", "300")


def test_the_screen_has_agents_and_runs() -> None:
    agent = AgentStatus(announcement=announcement("gpu-a", "i1"))
    text = "\n".join(screen([agent], [_progress()]))
    assert "1 of 1 agents live, 1 running" in text
    assert "gpu-a" in text
    assert E in text


def test_a_narrow_screen_cuts_no_doubt_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.commands.top.width_of", lambda _: 80)
    lines = screen([], [_progress()])
    assert all(len(line) <= 80 for line in lines)
    assert "queries)" in lines[-1]


def test_an_empty_screen_says_what_to_do() -> None:
    text = "\n".join(screen([], []))
    assert "mlscope serve agent" in text
    assert "mlscope run" in text


async def test_once_prints_and_ends(mlscope: CommandLine, standing: StandIns) -> None:
    ended = await mlscope("top", "--once")
    assert ended.code == exits.OK
    assert "nothing is running" in ended.out
