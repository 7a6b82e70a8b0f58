"""The survey of small models on this machine's processor: steps, state and tables."""

import json
from pathlib import Path

import pytest

from benchmarks.survey import measuring
from benchmarks.survey.__main__ import main
from benchmarks.survey.bounds import NO_BOUND, Bound
from benchmarks.survey.listed import Listed
from benchmarks.survey.measuring import Outcome, disturbed_sizes
from benchmarks.survey.rows import online_row
from benchmarks.survey.steps import NothingMeasured, State, Survey, steps
from benchmarks.survey.tables import sections
from schemas.plan import OfflinePlan

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


@pytest.mark.parametrize(
    ("medians", "again"),
    [
        ({1: 2.0, 2: 2.4, 4: 4.7, 8: 9.4}, []),  # levels off at 2
        ({1: 2.0, 2: 2.4, 4: 9.0, 8: 5.0, 16: 9.9}, [2, 4]),
        ({1: 2.0, 2: 2.4, 4: 3.0}, []),  # does not level off
        ({1: 2.0}, []),
    ],
)
def test_sizes_that_end_the_rule_too_early_are_measured_again(
    medians: dict[int, float], again: list[int]
) -> None:
    assert disturbed_sizes(medians) == again


def test_a_disturbed_size_does_not_end_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter(
        [
            {"b1-online-model": 2.0, "b2-online-model": 2.4, "b4-online-model": 9.0}
            | {"b8-online-model": 5.0, "b16-online-model": 9.9},
            {"b2-online-model": 3.0, "b4-online-model": 3.0},
        ]
    )
    monkeypatch.setattr(measuring, "medians_ms", lambda _: next(found))
    measured: list[tuple[str, list[int]]] = []

    def measure(plan: OfflinePlan, path: Path, _: Bound) -> list[Outcome]:
        measured.append((path.name, [one.batch_size for one in plan.plan.sessions]))
        return []

    model = Listed("digits", [1, 2, 4, 8, 16])
    survey = Survey(tmp_path, State(tmp_path / "state.json"), "cpu", [model], measure)
    (sweep,) = steps(survey, ["sweep"])
    results = sweep.act(survey, NO_BOUND)
    assert measured[1:] == [("sweep-digits-again-0.bundle", [2, 4])]
    assert results["medians_ms"] == {1: 2.0, 2: 2.4, 4: 3.0, 8: 5.0, 16: 9.9}
    assert results["optimal"] == 8
    assert results["repeated"] == [2, 4]


@pytest.mark.long
def test_published_weights_are_left_out_where_they_can_be_drawn() -> None:
    drawn = Listed("torchvision-resnet18", is_random=True).subject("cpu").model
    assert (drawn.model.weights, drawn.model.weights_path) == ("random", "")
    kept = Listed("digits", is_random=True).subject("cpu").model
    assert kept == Listed("digits").subject("cpu").model
