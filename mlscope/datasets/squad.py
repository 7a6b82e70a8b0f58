"""SQuAD 1.1 and 2.0: questions on paragraphs, and the answers that are right (JSON)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mlscope.datasets.dataset import Dataset, inside, json_in
from mlscope.datasets.errors import BadField, LayoutMissing
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Truth


class _Question(NamedTuple):
    """One question; paragraphs are shared between theirs."""

    name: str
    text: str
    paragraph: str
    answers: tuple[str, ...]


def squad(place: Place) -> Dataset:
    """Questions of a file, or of a folder's one *.json (dev-*.json where there are several).

    A sample is the pair [question, paragraph], as `tokenize` takes it; `gives: map` is a map with
    question and context. A question without answer (2.0) has none in its truth. Raises
    DatasetError.
    """
    gives = place.options.choice("gives", ("pair", "map"), "pair")
    path = _file(place)
    questions = list(_questions(json_in(path, place.path), place.shown(path)))

    def sample(index: int) -> Any:
        asked = questions[index]
        if gives == "map":
            return {"question": asked.text, "context": asked.paragraph}
        return [asked.text, asked.paragraph]

    return Dataset(len(questions), sample, lambda index: _truth(questions[index]))


def _truth(asked: _Question) -> Truth:
    return Truth(asked.name, texts=asked.answers)


def _questions(told: Any, shown: str) -> Iterator[_Question]:
    for one, article in enumerate(_list(told, "data", shown, "file")):
        record = f"data[{one}]"
        for two, paragraph in enumerate(_list(article, "paragraphs", shown, record)):
            record = f"data[{one}].paragraphs[{two}]"
            context = _text(paragraph, "context", shown, record)
            for three, asked in enumerate(_list(paragraph, "qas", shown, record)):
                yield _question(asked, context, shown, f"{record}.qas[{three}]")


def _question(asked: Any, context: str, shown: str, record: str) -> _Question:
    name, text = (_text(asked, field, shown, record) for field in ("id", "question"))
    answers = [
        _text(each, "text", shown, f"{record}.answers[{number}]")
        for number, each in enumerate(_list(asked, "answers", shown, record))
    ]
    is_impossible = asked.get("is_impossible", False)
    if not answers and not is_impossible:
        raise BadField(shown, record, "answers", answers, "one or more, or is_impossible")
    return _Question(name, text, context, () if is_impossible else tuple(dict.fromkeys(answers)))


def _list(value: Any, field: str, shown: str, record: str) -> list[Any]:
    found = value.get(field) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise BadField(shown, record, field, found, "a list")
    return found


def _text(value: Any, field: str, shown: str, record: str) -> str:
    found = value.get(field) if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise BadField(shown, record, field, found, "a text")
    return found


def _file(place: Place) -> Path:
    if place.path.is_file():
        return place.path
    found = sorted(place.path.glob("*.json"))
    found = found if len(found) == 1 else sorted(place.path.glob("dev-*.json"))
    if len(found) != 1:
        missing = "has not one .json, or one dev-*.json; name the file"
        raise LayoutMissing(place.path.name, missing, place.options.reader)
    return inside(place.path, found[0])
