"""The sweep of the catalog: its lines, its processes and their limits, its table."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.open_catalog import __main__ as command
from benchmarks.open_catalog.__main__ import main
from benchmarks.open_catalog.children import Limits, tried
from benchmarks.open_catalog.models import HUB, Tried, models_of
from benchmarks.open_catalog.rows import Row, add_row, rows_in
from benchmarks.open_catalog.summary import AT_HAND, summary_of
from mlscope.settings import Settings
from schemas.plan import Subject
from services.agent.fetching.host_watch import HOSTS
from tests.services.agent.builders import a_subject

ROOT = Path(__file__).parents[2]
MANIFESTS = Settings.read({}).manifests_folder
MANY = Limits(limit_s=120.0, memory_bytes=4_000_000_000)


def a_model(name: str = "identity", **changes: object) -> Tried:
    known = {"framework": "onnxruntime", "subject": a_subject(), "fault": "", "weights_at": "none"}
    return Tried(name, **(known | changes))  # type: ignore[arg-type]


def a_row(name: str, reason: str = "") -> Row:
    return Row(name, "onnxruntime", not reason, reason, 1.5, 90_000_000)


def sleeps(_: Subject) -> str:
    time.sleep(600.0)
    return ""


def says_its_id(subject: Subject) -> str:
    os.write(1, f"{os.getpid()}\n".encode())
    return sleeps(subject)


def dies(_: Subject) -> str:
    os._exit(7)


def grows(_: Subject) -> str:
    kept = bytearray(400_000_000)
    time.sleep(600.0)
    return str(len(kept))


@pytest.mark.parametrize(
    ("answer", "limits", "reason"),
    [
        (sleeps, Limits(0.2, 4_000_000_000), "does not answer within 0.2 s"),
        (grows, Limits(120.0, 300_000_000), "holds more than 0.3 GB of memory"),
        (dies, MANY, "its process ended with 7"),
    ],
    ids=["late", "large", "dead"],
)
def test_a_process_beyond_its_limits_is_a_row_with_the_reason(
    answer: Callable[[Subject], str], limits: Limits, reason: str
) -> None:
    row = tried(a_model(), limits, answer)
    assert (row.answers, row.reason) == (False, reason)


@pytest.mark.long
def test_a_model_s_process_ends_with_the_command() -> None:
    """What is killed kills nobody: the kernel ends its processes."""
    words = "from tests.benchmarks.test_open_catalog import *; tried(a_model(), MANY, says_its_id)"
    command = [sys.executable, "-c", words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = Path("/proc", parent.stdout.readline().strip())
        assert child.exists()
        parent.terminate()
    deadline = time.monotonic() + 20.0
    while child.exists():
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.05)


def test_a_model_without_a_plan_is_a_row_without_a_process() -> None:
    row = tried(a_model(subject=None, fault="no machine can satisfy the request"), MANY)
    assert (row.answers, row.reason) == (False, "no machine can satisfy the request")


def test_the_command_opens_a_model_once_and_names_what_it_did_not_try(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, table = tmp_path / "rows.jsonl", tmp_path / "table.md"
    words = [str(out), "--only", "identity", "--offline", "--markdown", str(table)]
    assert [main(words), main(words)] == [1, 1]
    (line,) = out.read_text().splitlines()
    row = json.loads(line)
    assert (row["model"], row["answers"], row["reason"]) == ("identity", True, "")
    assert "models open and answer one sample" in capsys.readouterr().out
    assert "tiny-cnn" in table.read_text().partition("## Models not tried")[2]


def test_a_keyboard_interrupt_begins_no_further_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def interrupted(model: Tried, _: Limits) -> Row:
        begun.append(model.name)
        if len(begun) == 1:
            raise KeyboardInterrupt
        time.sleep(0.02)
        return a_row(model.name)

    models = [a_model(f"m{number}") for number in range(60)]
    monkeypatch.setattr(command, "models_of", lambda *_: models)
    monkeypatch.setattr(command, "tried", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main([str(tmp_path / "rows.jsonl"), "--offline"])
    assert len(begun) < len(models)


def test_every_model_has_a_plan_and_a_place_of_its_weights() -> None:
    models = models_of(MANIFESTS, "cpu", "random")
    assert len(models) > 400
    assert [model.name for model in models if model.subject is None] == []
    options = {model.name: model.subject.options for model in models if model.subject}
    assert options["torchvision-resnet18"]["weights"] == "random"
    assert "weights" not in options["tiny-cnn"]
    places = {model.name: model.weights_at for model in models}
    assert places["torchvision-resnet18"] == "download.pytorch.org"
    assert (places["tiny-cnn"], places["magika"]) == ("mlscope", "a package")
    # What an agent tries, so that it can say which weights cannot be had.
    assert set(places.values()) - {*AT_HAND, HUB} == set(HOSTS)


def test_the_last_whole_line_of_a_model_counts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert rows_in(path) == {}
    for row in (a_row("a", "late"), a_row("b"), a_row("a")):
        add_row(path, row)
    path.write_text(path.read_text() + '{"model": "b", "fram')
    assert rows_in(path) == {"a": a_row("a"), "b": a_row("b")}


def test_the_table_counts_by_framework_and_names_the_reasons() -> None:
    models = [a_model("a"), a_model("b"), a_model("c", weights_at="hub.example")]
    rows = {"a": a_row("a"), "b": a_row("b", "an error\nwith | in it")}
    text = summary_of(models, rows, {"hub.example": "refused"}, "Device: cpu.")
    assert "1 of 3 models open and answer one sample of their dataset; 1 do not; 1 were not" in text
    assert "| onnxruntime | 3 | 1 | 1 | 1 | 1.5 | 90 |" in text
    assert "| hub.example | 1 | not reached: refused |" in text
    assert "| hub.example | 1 | not asked |" in summary_of(models, rows, {}, "")
    assert "| hub.example | 1 | the host answers |" in summary_of(
        models, rows, {"hub.example": ""}, ""
    )
    assert "| b | an error with \\| in it |" in text
    assert text.endswith("## Models not tried\n\nc\n")
