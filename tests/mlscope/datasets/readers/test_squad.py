"""SQuAD: questions with their paragraphs and answers, of both versions."""

from pathlib import Path
from typing import Any

import pytest

from mlscope.datasets.errors import DatasetError, LayoutMissing
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import squad_of, written

WHERE = {
    "id": "q1",
    "question": "Where?",
    "answers": [{"text": each, "answer_start": 15} for each in ("Graz", "in Graz", "Graz")],
}
NEVER = {**WHERE, "id": "q2", "question": "When?", "is_impossible": True}


def test_questions_and_answers(tmp_path: Path) -> None:
    dataset = open_dataset("squad", written(tmp_path / "dev.json", squad_of(WHERE, NEVER)))
    assert list(dataset) == [[each, "Nikola lived in Graz."] for each in ("Where?", "When?")]
    found = [(truth.name, truth.texts) for truth in dataset.truths if truth]
    assert found == [("q1", ("Graz", "in Graz")), ("q2", ())]


def test_a_map_of_both(tmp_path: Path) -> None:
    written(tmp_path / "train-v1.1.json", squad_of(NEVER))
    written(tmp_path / "dev-v1.1.json", squad_of(WHERE))
    sample = open_dataset("squad", tmp_path, {"gives": "map"})[0]
    assert sample == {"question": "Where?", "context": "Nikola lived in Graz."}


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({**WHERE, "answers": []}, r"data\[0\]\.paragraphs\[0\]\.qas\[0\]: answers is \[\]"),
        ({**WHERE, "id": 3}, "id is 3, expected a text"),
        ({**WHERE, "answers": [{}]}, r"qas\[0\]\.answers\[0\]: text is None"),
        ({"id": "q", "question": "?"}, "answers is None, expected a list"),
    ],
)
def test_what_is_wrong_in_a_question_is_named(
    tmp_path: Path, question: dict[str, Any], words: str
) -> None:
    with pytest.raises(DatasetError, match=words):
        open_dataset("squad", written(tmp_path / "dev.json", squad_of(question)))


@pytest.mark.parametrize(
    ("body", "reason"),
    [("{", "is not JSON"), ("{}", "data is None"), ('{"data": [3]}', "paragraphs")],
)
def test_what_is_no_squad(tmp_path: Path, body: str, reason: str) -> None:
    with pytest.raises(DatasetError, match=reason):
        open_dataset("squad", written(tmp_path / "dev.json", body))


def test_several_files_are_not_guessed_between(tmp_path: Path) -> None:
    written(tmp_path / "a.json", squad_of(WHERE))
    written(tmp_path / "b.json", squad_of(WHERE))
    with pytest.raises(LayoutMissing, match="name the file"):
        open_dataset("squad", tmp_path)
