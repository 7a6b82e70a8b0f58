"""Answers as rows for people, and files that are no question."""

import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cli import exits
from cli.commands.predict import prediction_rows, write_predictions
from cli.printing import predictions
from mlscope.client.predicting import Predicted
from schemas.analysis import FailedQuery, Prediction, Predictions
from schemas.evaluation import EvaluationRequested
from schemas.subjects import story_of
from tests.cli.conftest import CommandLine
from tests.cli.printing.terminal import Terminal
from tests.stand_ins import StandIns
from tests.stories import ending

CATS = tuple({"label": f"cat{n}", "probability": 0.5} for n in range(9))


def test_a_file_has_its_best_lines_or_its_reason() -> None:
    found = [Predicted("a", CATS), Predicted("b", error="torn"), Predicted("c")]
    rows = prediction_rows(found, top=2).rows
    assert [row[:3] for row in rows] == [
        ("a", 1, "cat0"),
        ("a", 2, "cat1"),
        ("b", None, "no answer: torn"),
        ("c", None, "nothing was found"),
    ]


def test_a_terminal_shows_answers_whole_beside_a_long_path(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", terminal)
    features = ({"label": "soft-coated wheaten terrier", "probability": 0.5},)
    folder = "/a/folder" * 9
    found = [Predicted(f"{folder}/{name}.jpg", features) for name in ("cat", "dog")]
    write_predictions(found, 1, "table")
    lines = terminal.getvalue().splitlines()[1:]
    assert max(map(len, lines)) <= 80
    assert [" ".join(lines).count(word) for word in ("wheaten", "terrier")] == [2, 2]
    assert [name in terminal.getvalue() for name in ("/cat.jpg", "/dog.jpg")] == [True, True]


def test_a_pipe_gets_a_line_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    label = "a long answer of more columns than folded ones have"
    write_predictions([Predicted("a" * 90, ({"label": label},))], 1, "table")
    assert f"{'a' * 90}     1  {label}" in capsys.readouterr().out


def test_predictions_tell_what_is_right_once_and_failed_queries_last() -> None:
    first = Prediction(
        run="r0", query=0, sample=4, name="a.jpg", features=CATS, truth={"labels": ["cat", "tom"]}
    )
    nothing = Prediction(run="r0", query=1, sample=5, truth={"texts": ["hello"]})
    failed = FailedQuery(run="r0", query=7, error="torn")
    found = Predictions(evaluation="e1", predictions=(first, nothing), total=2, failed=(failed,))
    rows = predictions.prediction_rows(found).rows
    assert [row[3:7] for row in rows[:2]] == [(1, "cat0", 0.5, "cat / tom"), (2, "cat1", 0.5, "")]
    assert len(rows) == 5 + 1 + 1
    assert rows[5][1:7] == (5, "", None, "nothing was found", None, "hello")
    assert rows[6][2:5] == ("query 7", None, "no answer: torn")


async def test_own_files_are_private_unless_asked_otherwise(
    mlscope: CommandLine, standing: StandIns, tmp_path: Path
) -> None:
    (tmp_path / "cat.jpg").write_bytes(b"a cat")
    standing.then = lambda evaluation: ending(evaluation)
    visibilities = []
    for options in ((), ("--visibility", "private"), ("--visibility", "cluster")):
        await mlscope("predict", "tiny", str(tmp_path / "cat.jpg"), *options)
        (requested, *_) = await standing.bus.read(story_of(standing.requested[-1]))
        assert isinstance(requested.fact, EvaluationRequested)
        visibilities.append(requested.fact.request.visibility)
    assert visibilities == ["private", "private", "cluster"]


@pytest.mark.parametrize("name", ["objects.npz", "text.npz", "objects.npy"])
async def test_a_file_without_numbers_is_refused(tmp_path: Path, name: str) -> None:
    objects = np.array([{}, None], object)
    np.save(tmp_path / "objects.npy", objects)
    np.savez(tmp_path / "objects.npz", x=objects)
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x.txt", "text")
    alone = CommandLine(MLSCOPE_DATA=str(tmp_path))
    ended = await alone("predict", "tiny-cnn", str(tmp_path / name))
    assert (ended.code, "Traceback" in ended.err) == (exits.USAGE, False), ended.err
    assert f"{name}: no {Path(name).suffix} of numbers" in ended.err
