"""What is kept of a run's answers: first ones, repeats that differ, truths, and never too much."""

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mlscope.datasets.errors import BadRecord
from mlscope.datasets.truth import Truth
from mlscope.tracing.batches import Attempt
from services.agent.predictors import Tensors
from services.agent.worker.answers import kept_outputs as kept
from services.agent.worker.answers.kept_outputs import (
    MOST_REPEATS,
    KeptOutputs,
    bounded_json,
    features_at,
)
from services.agent.worker.recorder import RunRecorder


@dataclass
class Asked:
    """A query, as far as keeping answers goes."""

    index: int
    samples: Sequence[int]
    outputs: Tensors | None = None
    payload: Sequence[Any] | None = None
    failed: frozenset[int] = frozenset()


class Rows(RunRecorder):
    """Keeps the rows it gets."""

    def __init__(self) -> None:
        super().__init__(Attempt("e", "r", 1, "a"), lambda _: True)
        self.rows: list[tuple[int, int, Any]] = []

    def output(self, row: tuple[int, int, bytes]) -> None:
        """Keep a row, its text read."""
        self.rows.append((row[0], row[1], json.loads(row[2])))


def _label(name: str) -> list[dict[str, Any]]:
    return [{"type": "classification", "index": 0, "label": name, "probability": 0.5}]


def _kept(answers: Sequence[tuple[int, Any]], most: int = 8, truths: Any = ()) -> tuple[Any, Any]:
    """Return who kept, and the rows, of one answer a query: its sample and its features."""
    keeper, rows = KeptOutputs(most, truths), Rows()
    for index, (sample, features) in enumerate(answers):
        keeper.keep(rows, Asked(index, [sample]), [("", [features])])
    keeper.settle(rows)
    return keeper, rows.rows


def test_a_repeat_that_says_the_same_is_compared_and_not_kept() -> None:
    keeper, rows = _kept([(3, _label("cat"))] * 2)
    assert [(query, sample) for query, sample, _ in rows] == [(0, 3)]
    assert keeper.compared == 1


def test_a_repeat_that_says_something_else_is_kept_too() -> None:
    _, rows = _kept([(3, _label("cat")), (3, _label("dog"))])
    assert [(query, features[0]["label"]) for query, _, features in rows] == [
        (0, "cat"),
        (1, "dog"),
    ]


def test_only_so_many_repeats_are_looked_at() -> None:
    for most in (1, 8):
        keeper, rows = _kept([(3, _label(str(n))) for n in range(9)], most=most)
        assert len(rows) == 1 + MOST_REPEATS
        assert keeper.compared == MOST_REPEATS
        assert keeper.has_room == (most > 1)


def test_more_samples_than_wanted_are_not_kept() -> None:
    keeper, rows = _kept([(n, _label("cat")) for n in range(5)], most=2)
    assert [sample for _, sample, _ in rows] == [0, 1]
    assert keeper.has_room


def test_what_is_true_goes_with_the_answer_when_the_run_stands_still() -> None:
    truths = [Truth("a.jpg", (7,), ("cat", "tabby")), None]
    keeper, recorder = KeptOutputs(8, truths), Rows()
    keeper.keep(recorder, Asked(0, [0, 1]), [("", [_label("cat"), _label("dog")])])
    assert recorder.rows == []
    keeper.settle(recorder)
    (_, _, first), (_, _, second) = recorder.rows
    assert first["truth"] == {"name": "a.jpg", "classes": [7], "labels": ["cat", "tabby"]}
    assert second == _label("dog")


def test_a_truth_that_can_t_be_read_is_said_and_ends_nothing() -> None:
    class Torn(list[Any]):
        def __getitem__(self, index: Any) -> Any:
            raise BadRecord("labels.csv", index, "is torn")

    _, ((_, _, row),) = _kept([(0, _label("cat"))], truths=Torn([None]))
    assert row["features"] == _label("cat")
    assert "is torn" in row["judged"]["error"]


def test_a_map_of_classes_is_judged_before_it_is_made_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = io.BytesIO()
    Image.fromarray(np.array([[0, 1], [255, 1]], np.uint8)).save(file, "PNG")
    runs = [[0, 1], [1, 3]]
    feature = {"type": "semanticsegment", "size": [2, 2], "runs": runs, "classes": []}
    monkeypatch.setattr(kept, "MOST_BYTES", 10)
    truths = [Truth("a.png", picture=file.getvalue())]
    _, ((_, _, row),) = _kept([(0, [feature])], truths=truths)
    assert row["judged"]["pixels"] == {"counts": [[0, 0, 1], [1, 1, 2]], "ignored": 1}


def test_what_is_too_large_is_left_out_and_its_size_is_said() -> None:
    picture = {"type": "image", "format": "png", "size": [9, 9], "data": "x" * 300_000}
    (told,) = json.loads(bounded_json([picture]))
    assert told == {
        "type": "image",
        "format": "png",
        "size": [9, 9],
        "left_out": {"data": 300_002},
    }


def test_a_row_holds_no_more_than_its_bound() -> None:
    picture = {"type": "image", "size": [9, 9], "data": "x" * 300_000}
    _, ((_, _, (told,)),) = _kept([(0, [picture])])
    assert told["left_out"] == {"data": 300_002}


def test_too_many_features_are_cut_behind_and_counted() -> None:
    many = [{"label": "x" * 100, "place": n} for n in range(10_000)]
    text = bounded_json(many)
    told = json.loads(text)
    assert len(text) <= kept.MOST_BYTES
    assert [each["place"] for each in told] == list(range(len(told)))
    assert told[-1]["left_out_features"] == len(many) - len(told)


def test_a_run_keeps_no_more_than_its_bound_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_RUN_BYTES", 200)
    keeper, rows = _kept([(n, _label("cat")) for n in range(9)], most=9)
    assert 0 < len(rows) < 9
    assert not keeper.has_room
    assert keeper.notes == [
        f"only the answers of {len(rows)} samples are kept: the limit is 200 bytes"
    ]


def test_what_classes_were_chosen_from_is_kept_beside_them() -> None:
    keeper, recorder = KeptOutputs(8), Rows()
    outputs = {"logits": np.array([[1.5, -2.0]], np.float32)}
    keeper.keep(recorder, Asked(0, [0], outputs), [("logits", [_label("cat")])])
    ((_, _, row),) = recorder.rows
    raw = np.frombuffer(base64.b64decode(row["raw"][""]), "<f4")
    assert raw.tolist() == [1.5, -2.0]


def test_what_classes_were_chosen_from_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_RUN_BYTES", 2000)
    keeper, recorder = KeptOutputs(8), Rows()
    outputs = {"logits": np.zeros((1, 1000), np.float32)}
    keeper.keep(recorder, Asked(0, [0], outputs), [("logits", [_label("cat")])])
    assert recorder.rows == []
    assert not keeper.has_room


def test_large_outputs_and_those_without_classes_are_not() -> None:
    keeper, recorder = KeptOutputs(8), Rows()
    outputs = {"logits": np.zeros((1, kept.MOST_VALUES + 1), np.float32)}
    keeper.keep(recorder, Asked(0, [0], outputs), [("logits", [_label("cat")])])
    text = [{"type": "text", "text": "hello"}]
    keeper.keep(recorder, Asked(1, [1], {"t": np.zeros((1, 4), np.float32)}), [("t", [text])])
    assert [row for _, _, row in recorder.rows] == [_label("cat"), text]


def test_a_tensor_is_described_by_its_first_values() -> None:
    (feature,) = features_at([("", np.arange(4000, dtype=np.int64).reshape(1, 4000))], 0)
    assert (feature["shape"], feature["element_type"]) == ([4000], "int64")
    assert len(feature["values"]) == kept.MOST_VALUES


def test_failed_samples_and_answers_to_the_asker_s_own_have_no_row() -> None:
    keeper, recorder = KeptOutputs(8), Rows()
    answers = [("", [_label("cat"), _label("dog")])]
    keeper.keep(recorder, Asked(0, [0, 1], failed=frozenset([0])), answers)
    keeper.keep(recorder, Asked(1, [2, 3], payload=[b"", b""]), answers)
    keeper.keep(recorder, Asked(2, [4, 5]), None)
    assert [sample for _, sample, _ in recorder.rows] == [1]
