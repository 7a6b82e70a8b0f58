"""The survey of small models on this machine's processor: steps, state and tables."""

import json
from pathlib import Path

import pytest

from benchmarks.survey.__main__ import main
from benchmarks.survey.bounds import NO_BOUND
from benchmarks.survey.listed import Listed
from benchmarks.survey.rows import online_row
from benchmarks.survey.steps import NothingMeasured, State, Survey, steps
from benchmarks.survey.tables import sections

ASKED = ("--device", "cpu", "--models", "tiny-cnn", "--batch-sizes", "1,2")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder after a whole survey that was broken off once."""
    out = tmp_path_factory.mktemp("survey")
    assert main([str(out), *ASKED, "--seconds", "0"]) == 1
    assert main([str(out), *ASKED]) == 0
    return out


def rows_of(out: Path, title: str) -> list[dict[str, str]]:
    """Return a table's rows by heading."""
    table = next(text for text in sections(out) if text.startswith(f"## {title}"))
    head, _, *rows = [line for line in table.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (head, *rows)]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


@pytest.mark.long
def test_it_goes_on_where_it_was_left(out: Path) -> None:
    before = (out / "state.json").read_text()
    assert main([str(out), *ASKED]) == 0
    assert (out / "state.json").read_text() == before
    found = set(json.loads(before)) - {"survey"}
    phases = ("sweep", "throughput", "system")
    assert found == {f"{phase} tiny-cnn" for phase in phases}


@pytest.mark.long
def test_latency_and_throughput_are_of_every_model(out: Path) -> None:
    rows = rows_of(out, "Online latency and throughput")
    assert [row["model"] for row in rows] == ["tiny-cnn"]
    assert all(float(row["online trimmed mean (ms)"]) > 0 for row in rows)
    assert all(float(row["max throughput (1/s)"]) > 0 for row in rows)
    assert {row["framework"] for row in rows} == {"onnxruntime"}
    speeds = rows_of(out, "Speed-up over batch sizes")
    assert [row["1"] for row in speeds] == ["1.0"]
    # Both of the same queries, the forty single ones.
    row = online_row("tiny-cnn", out / "sweep-tiny-cnn.bundle", [])
    assert row["rates"][1] == pytest.approx(1e3 / row["online_ms"])


@pytest.mark.long
def test_layers_have_work_and_a_roof_and_no_gpu(out: Path) -> None:
    (cnn,) = rows_of(out, "Layers and kernels at the optimal batch")
    assert float(cnn["GFLOP (static)"]) > 0
    assert cnn["memory-bound"] in ("yes", "no")
    assert cnn["stages"].count("/") == 3
    nothing = ("GPU share", "DRAM reads (GB)", "occupancy (%)", "GFLOP (counted)", "kernels")
    assert {cnn[name] for name in nothing} == {"-"}


@pytest.mark.long
def test_a_model_that_fails_is_not_the_end(tmp_path: Path) -> None:
    asked = ("--device", "cpu", "--models", "no-such-model,digits", "--batch-sizes", "1")
    assert main([str(tmp_path), "sweep", *asked]) == 1
    assert "sweep digits" in json.loads((tmp_path / "state.json").read_text())


def test_a_model_of_which_nothing_was_measured_stays_to_be_done(tmp_path: Path) -> None:
    survey = Survey(
        tmp_path, State(tmp_path / "state.json"), "cpu", [Listed("digits")], lambda *_: []
    )
    (sweep,) = steps(survey, ["sweep"])
    with pytest.raises(NothingMeasured):
        sweep.act(survey, NO_BOUND)


@pytest.mark.long
def test_published_weights_are_left_out_where_they_can_be_drawn() -> None:
    drawn = Listed("torchvision-resnet18", is_random=True).subject("cpu").model
    assert (drawn.model.weights, drawn.model.weights_path) == ("random", "")
    kept = Listed("digits", is_random=True).subject("cpu").model
    assert kept == Listed("digits").subject("cpu").model
