"""Texts through real services: questions' answers by exact match and F1, transcripts by errors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.flow.clusters import Cluster
from tests.flow.test_own_files import message, ran, written

INT64, FLOAT32 = 7, 1
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "?", "met", "in", "bob", "ann")
ALPHABET = ("a", "b")
LENGTH = 16


def casting(path: Path, *sizes: int) -> dict[str, Any]:
    """Write an ONNX graph whose output is its whole numbers as float32; return its input."""
    ports = [_port("x", INT64, sizes), _port("y", FLOAT32, sizes)]
    cast = [(1, b"x"), (2, b"y"), (4, b"Cast"), (5, [(1, b"to"), (3, FLOAT32), (20, 2)])]
    graph = [(1, cast), (2, b"casting"), (11, ports[0]), (12, ports[1])]
    path.write_bytes(message([(1, 8), (7, graph), (8, [(2, 17)])]))
    return {"layer_name": "x", "element_type": "int64", "shape": [-1, *sizes]}


def _port(name: str, kind: int, sizes: tuple[int, ...]) -> list[Any]:
    shape = [(1, [(2, b"b")]), *((1, [(1, size)]) for size in sizes)]
    return [(1, name.encode()), (2, [(1, [(1, kind), (2, shape)])])]


def model_of(
    name: str, inputs: dict[str, Any], step: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Return a manifest of such a graph with one step behind it."""
    return {
        "kind": "model",
        "name": name,
        "version": "1.0.0",
        "framework": {"name": "onnxruntime"},
        "inputs": [inputs],
        "outputs": [{"type": "text", "layer_name": "y", "steps": [step]}],
        "model": {"graph_path": f"{name}.onnx", "assets": {"words.txt": ""}},
        **more,
    }


def measured(told: dict[str, Any]) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in told["tables"]["accuracy"]}


def test_questions_are_judged_by_exact_match_and_f1(cluster: Cluster, tmp_path: Path) -> None:
    asked = {
        "Ann met Bob in Rome.": ["Ann"],
        "Bob met Ann, in (Ann)": ["Ann, in (Ann)", "the Ann"],
        "Bob in Rome": ["Rome"],
    }
    paragraphs = [
        {
            "context": context,
            "qas": [
                {"id": context[:9], "question": "Who?", "answers": [{"text": e} for e in right]}
            ],
        }
        for context, right in asked.items()
    ]
    folder = tmp_path / "questions"
    folder.mkdir()
    (folder / "dev-v1.1.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    (tmp_path / "words.txt").write_text("\n".join(PIECES))
    # The number of a word is its score, so that the answer is the last word of the list.
    inputs = casting(tmp_path / "asker.onnx", LENGTH)
    reading = {"tokenize": None, "vocabulary": "words.txt", "length": LENGTH}
    finding = {"answer_span": None, "end": "y", "vocabulary": "words.txt", "most_pieces": 1}
    more = {"task": "question answering"}
    model = model_of("asker", {"type": "text", **inputs, "steps": [reading]}, finding, **more)
    told = ran(cluster, written(tmp_path / "asker.yml", model), "--dataset", str(folder))
    # "Ann" and "Ann" are right; of the third "Bob" is not.
    assert measured(told) == pytest.approx({"exact match": 2 / 3, "F1": 2 / 3})


def test_transcripts_are_judged_by_errors(cluster: Cluster, tmp_path: Path) -> None:
    best = {"ab": [1, 0, 2, 0], "ba": [1, 1, 0, 0]}
    header = ",".join([*(f"c{n}" for n in range(12)), "text"])
    rows = [
        ",".join([*(str(value) for value in np.eye(3, dtype=int)[path].ravel()), text])
        for text, path in best.items()
    ]
    (tmp_path / "rows.csv").write_text("\n".join([header, *rows]) + "\n")
    (tmp_path / "words.txt").write_text("\n".join(ALPHABET))
    options = {
        "features": [f"c{n}" for n in range(12)],
        "shape": [4, 3],
        "element_type": "int64",
        "texts": ["text"],
    }
    source = {"address": "./rows.csv", "reader": "csv", "options": options}
    dataset = {"kind": "dataset", "name": "spoken", "source": source}
    inputs = {"type": "raw", **casting(tmp_path / "listener.onnx", 4, 3)}
    model = model_of("listener", inputs, {"ctc": None, "labels": "words.txt"})
    told = ran(
        cluster,
        written(tmp_path / "listener.yml", model),
        "--dataset",
        written(tmp_path / "spoken.yml", dataset),
    )
    # "ab" is heard as it is; of "ba" one letter of two is: one of two words, one of four letters.
    assert measured(told) == pytest.approx({"word error rate": 0.5, "character error rate": 0.25})
