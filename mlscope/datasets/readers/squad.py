"""SQuAD 1.1 and 2.0: questions on paragraphs and their correct answers (JSON)."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from mlscope.datasets.dataset import Dataset, read_json, require_below
from mlscope.datasets.errors import BadField, LayoutMissing
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.truth import Truth


class _Question(NamedTuple):
    """One question. The questions on a paragraph share its text."""

    name: str
    text: str
    paragraph: str
    answers: tuple[str, ...]

    @classmethod
    def of(cls, entry: Any, paragraph: str, file: str, record: str) -> Self:
        """Return the question of one `qas` entry. Raises BadField."""
        name, text = (_text(entry, field, file, record) for field in ("id", "question"))
        answers = [
            _text(answer, "text", file, f"{record}.answers[{number}]")
            for number, answer in enumerate(_list(entry, "answers", file, record))
        ]
        is_impossible = entry.get("is_impossible", False)
        if not answers and not is_impossible:
            raise BadField(file, record, "answers", answers, "one or more, or is_impossible")
        return cls(name, text, paragraph, () if is_impossible else tuple(dict.fromkeys(answers)))


def squad(source: ReaderInput) -> Dataset:
    """Read the questions of a file, or of a folder's one *.json (dev-*.json if there are several).

    A sample is the pair [question, paragraph], as `tokenize` takes it; with `gives: map` a map with
    question and context. A question without an answer (2.0) has no texts in its truth. Raises
    DatasetError.
    """
    gives = source.options.choice("gives", ("pair", "map"), "pair")
    path = source.path
    if not path.is_file():
        paths = sorted(path.glob("*.json"))
        paths = paths if len(paths) == 1 else sorted(path.glob("dev-*.json"))
        if len(paths) != 1:
            missing = "needs exactly one .json, or one dev-*.json; name the file"
            raise LayoutMissing(path.name, missing, source.options.reader)
        path = require_below(path, paths[0])
    questions = list(_questions(read_json(path, source.path), source.shown(path)))

    def sample(index: int) -> Any:
        question = questions[index]
        if gives == "map":
            return {"question": question.text, "context": question.paragraph}
        return [question.text, question.paragraph]

    def truth(index: int) -> Truth:
        return Truth(questions[index].name, texts=questions[index].answers)

    return Dataset(len(questions), sample, truth)


def _questions(document: Any, file: str) -> Iterator[_Question]:
    """Yield the questions of a SQuAD document. Raises BadField."""
    for article_number, article in enumerate(_list(document, "data", file, "file")):
        record = f"data[{article_number}]"
        for number, paragraph in enumerate(_list(article, "paragraphs", file, record)):
            record = f"data[{article_number}].paragraphs[{number}]"
            context = _text(paragraph, "context", file, record)
            for entry_number, entry in enumerate(_list(paragraph, "qas", file, record)):
                yield _Question.of(entry, context, file, f"{record}.qas[{entry_number}]")


def _list(entry: Any, field: str, file: str, record: str) -> list[Any]:
    value = entry.get(field) if isinstance(entry, dict) else None
    if not isinstance(value, list):
        raise BadField(file, record, field, value, "a list")
    return value


def _text(entry: Any, field: str, file: str, record: str) -> str:
    value = entry.get(field) if isinstance(entry, dict) else None
    if not isinstance(value, str):
        raise BadField(file, record, field, value, "a text")
    return value
