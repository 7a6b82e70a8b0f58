"""`mlscope watch --events`: a line for the state at first, and for each event after it."""

import json

import pytest

from cli.commands.watch import EventPrinter
from mlscope.client.watching import Progress
from mlscope.evaluation.fold import fold
from mlscope.evaluation.status import status_of
from tests.stories import a_run, beginning


def test_only_what_happens_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    planned = status_of(fold(beginning()))
    running = status_of(fold([*beginning(), a_run("r0")[0]]))
    steps = ((planned, ""), (planned, ""), (running, "run.started"), (running, ""), (planned, ""))
    events = EventPrinter()
    for status, happened in steps:
        events.show(Progress(status, happened, {}))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["happened"], line["status"]["state"]) for line in lines] == [
        ("", "planned"),
        ("run.started", "running"),
        ("", "planned"),
    ]
