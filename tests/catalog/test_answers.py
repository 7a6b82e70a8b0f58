"""Published weights from Python packages, on real inputs: the right answers, by a real worker."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.accuracy.text import character_error_rate
from tests.catalog.answering import Features, answers_of, subject_of

Raw = Any


def labels_of(subject: Any) -> list[str]:
    """Return the one label of each sample."""
    return [sample.labels[0] for sample in subject.dataset.samples]


def best(answers: list[Features]) -> list[str]:
    """Return the label each sample is given first."""
    return [features[0]["label"] for features in answers]


def values(features: Features) -> Raw:
    """Return a raw answer's numbers."""
    return np.array(features[0]["values"]).reshape(features[0]["shape"])


@pytest.mark.parametrize(
    "framework", ["onnxruntime", pytest.param("openvino", marks=pytest.mark.long)]
)
async def test_print_reads_as_its_text(framework: str, tmp_path: Path) -> None:
    subject = subject_of("rapidocr-text-recognition", framework)
    texts = [features[0]["text"] for features in await answers_of(subject, tmp_path)]
    wrong = character_error_rate(texts, labels_of(subject)).value
    assert wrong is not None
    assert wrong <= 0.05, texts
    assert "The quick brown fox" in texts


async def test_text_is_found_once_and_where_it_is(tmp_path: Path) -> None:
    """The letters begin 20 pixels from the left of a picture that fills 640 across."""
    subject = subject_of("rapidocr-text-detection")
    for boxes in await answers_of(subject, tmp_path):
        (box,) = boxes
        assert 20 < box["xmin"] < 80
        assert 560 < box["xmax"] < 620
        assert 20 < box["ymin"] < box["ymax"] < 130


async def test_print_upside_down_is_seen(tmp_path: Path) -> None:
    subject = subject_of("rapidocr-text-direction")
    answers = best(await answers_of(subject, tmp_path, batch_size=4))
    right = sum(a == b for a, b in zip(answers, labels_of(subject), strict=True))
    assert right >= 7, answers


@pytest.mark.parametrize("framework", ["onnxruntime", "openvino"])
async def test_a_file_is_what_it_is(framework: str, tmp_path: Path) -> None:
    subject = subject_of("magika", framework)
    assert best(await answers_of(subject, tmp_path, batch_size=2)) == labels_of(subject)


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("silero-vad", "onnxruntime"),
        pytest.param("silero-vad-any-rate", "onnxruntime", marks=pytest.mark.long),
        pytest.param("silero-vad-half", "onnxruntime", marks=pytest.mark.long),
        pytest.param("silero-vad-openvino", "onnxruntime", marks=pytest.mark.long),
        pytest.param("silero-vad-openvino", "openvino", marks=pytest.mark.long),
    ],
)
async def test_speech_is_told_from_other_sounds(name: str, framework: str, tmp_path: Path) -> None:
    subject = subject_of(name, framework)
    likely = [values(features).item() for features in await answers_of(subject, tmp_path)]
    speech = [each == "speech" for each in labels_of(subject)]
    assert min(p for p, is_speech in zip(likely, speech, strict=True) if is_speech) > 0.3
    assert max(p for p, is_speech in zip(likely, speech, strict=True) if not is_speech) < 0.1


@pytest.mark.parametrize(
    "number",
    [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)],
)
async def test_photos_are_what_they_show(number: int, tmp_path: Path) -> None:
    """The labels were committed first; EfficientNet-Lite0's ONNX export knows 9 of 9 in 5."""
    subject = subject_of(f"efficientnet-lite{number}-pytorch")
    answers = await answers_of(subject, tmp_path, batch_size=3)
    known = [
        bool({each["label"] for each in features} & set(sample.labels))
        for features, sample in zip(answers, subject.dataset.samples, strict=True)
    ]
    assert sum(known) >= 8, best(answers)


@pytest.mark.parametrize("framework", ["pytorch", pytest.param("jax", marks=pytest.mark.long)])
async def test_texts_of_like_meaning_lie_together(framework: str, tmp_path: Path) -> None:
    subject = subject_of("all-minilm-l6-v2", framework)
    vectors = np.stack([values(each) for each in await answers_of(subject, tmp_path, 2)])
    likeness = vectors @ vectors.T
    assert np.allclose(np.diag(likeness), 1.0, atol=1e-4)
    assert min(likeness[0, 1], likeness[2, 3]) > likeness[:2, 2:].max() + 0.2


@pytest.mark.parametrize(
    "name",
    [
        "front",
        pytest.param("back", marks=pytest.mark.long),
        pytest.param("short-range", marks=pytest.mark.long),
    ],
)
async def test_a_face_is_found_where_one_is(name: str, tmp_path: Path) -> None:
    subject = subject_of(f"mediapipe-face-detection-{name}")
    answers = await answers_of(subject, tmp_path)
    likely = {
        Path(sample.path).stem: float(values(features).max())
        for features, sample in zip(answers, subject.dataset.samples, strict=True)
    }
    assert likely["grace_hopper"] > 0.8
    assert max(likely, key=likely.__getitem__) == "grace_hopper", likely
