"""Truths beside answers: small ones whole, pictures as what their metrics need."""

import base64
import io
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from PIL import Image

from mlscope.accuracy import psnr, ssim
from mlscope.datasets.truth import Objects, Truth
from services.agent.judging import Placing, judged, told_of
from services.agent.pipeline import Pipeline, PortOperators
from services.agent.steps import Operator

RANDOM = np.random.default_rng(3)


def _png(pixels: Any, mode: str | None = None) -> bytes:
    file = io.BytesIO()
    image = Image.fromarray(np.asarray(pixels, np.uint8))
    (image.convert(mode) if mode else image).save(file, "PNG")
    return file.getvalue()


def _objects(*segmentations: Any) -> Objects:
    count = len(segmentations)
    return Objects(
        boxes=np.array([[1.0, 2.0, 3.0, 4.0]] * count),
        classes=np.arange(count),
        crowd=np.zeros(count, bool),
        areas=np.array([12.0] * count),
        segmentations=segmentations,
        height=20,
        width=10,
    )


def test_what_a_truth_does_not_know_is_not_told() -> None:
    assert told_of(Truth(), b"[]") == {}
    assert told_of(Truth("q1", texts=()), b"[]") == {"name": "q1", "texts": ()}
    assert told_of(Truth(values=np.array([1.0])), b"[]") == {"values": [1.0]}


def test_masks_go_with_masks_alone() -> None:
    truth = Truth(objects=_objects({"size": [20, 10], "counts": [200]}))
    with_boxes = told_of(truth, b'[{"type":"boundingbox"}]')["objects"]
    assert with_boxes["boxes"] == [[1.0, 2.0, 3.0, 4.0]]
    assert (with_boxes["size"], with_boxes["crowd"]) == ([20, 10], [0])
    assert "segmentations" not in with_boxes
    for answer in (b'[{"type":"instancesegment"}]', b"[]"):
        with_masks = told_of(truth, answer)["objects"]
        assert with_masks["segmentations"] == [{"size": [20, 10], "counts": [200]}]


def _map(runs: list[list[int]], *size: int) -> dict[str, Any]:
    return {"type": "semanticsegment", "size": list(size), "runs": runs}


def test_pixels_are_counted_by_label_and_answer() -> None:
    truth = Truth(picture=_png([[0, 0, 1], [1, 255, 1]]))
    found = judged([_map([[0, 3], [2, 1], [1, 2]], 2, 3)], truth)
    assert found == {
        "pixels": {"counts": [[0, 0, 2], [1, 0, 1], [1, 1, 1], [1, 2, 1]], "ignored": 1}
    }


def test_a_palette_s_indices_are_the_classes() -> None:
    image = Image.fromarray(np.array([[0, 1]], np.uint8), "P")
    image.putpalette([9, 9, 9, 200, 0, 0])
    file = io.BytesIO()
    image.save(file, "PNG")
    found = judged([_map([[1, 2]], 1, 2)], Truth(picture=file.getvalue()))
    assert found["pixels"]["counts"] == [[0, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("picture", "why"),
    [
        (_png(np.zeros((2, 2, 3))), "one number a pixel"),
        (b"torn", "identify"),
    ],
    ids=["colours", "torn"],
)
def test_a_map_that_does_not_fit_is_an_error_of_its_sample(picture: bytes, why: str) -> None:
    assert why in judged([_map([[0, 4]], 2, 2)], Truth(picture=picture))["error"]


def test_a_map_of_another_size_is_stretched_to_the_label_s() -> None:
    labels = RANDOM.integers(0, 3, (8, 10), dtype=np.uint8)
    seen = RANDOM.integers(0, 3, (4, 6), dtype=np.uint8)
    grown = np.asarray(Image.fromarray(seen).resize((10, 8), Image.Resampling.NEAREST))
    answer = _map([[int(each), 1] for each in seen.ravel()], 4, 6)
    found = judged([answer], Truth(picture=_png(labels)))["pixels"]
    pairs, counts = np.unique(
        np.stack([labels.ravel(), grown.ravel()], 1), axis=0, return_counts=True
    )
    assert found["counts"] == [[*map(int, pair), n] for pair, n in zip(pairs, counts, strict=True)]
    assert found["resized"] == [4, 6]


def _before(*names: str, code: bool = False) -> Pipeline:
    steps = tuple(Operator(name, lambda values: values) for name in names)
    code_before = (Operator("preprocess", lambda values: values),) if code else ()
    return Pipeline(before=(PortOperators("x", steps),), code_before=code_before)


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (_before("decode", "resize", "crop"), "crop"),
        (_before("decode", "pad"), "pad"),
        (_before(code=True), "inline code"),
        (_before("decode", "resize", "normalize"), None),
    ],
    ids=["cut", "padded", "code", "whole"],
)
def test_a_map_of_something_else_than_the_whole_picture_is_not_stretched(
    before: Pipeline, why: str | None
) -> None:
    truth, answer = Truth(picture=_png([[0, 1, 1]])), _map([[0, 4]], 2, 2)
    found = judged([answer], truth, Placing.of(before))
    assert ("pixels" in found) if why is None else (why in found["error"])


def test_an_empty_map_is_an_error_of_its_sample() -> None:
    assert "error" in judged([_map([], 0, 5)], Truth(picture=_png([[0, 1]])))


def test_pictures_are_compared_by_their_pixels() -> None:
    true = RANDOM.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    found = np.clip(true.astype(int) + 3, 0, 255).astype(np.uint8)
    feature = {"type": "image", "data": base64.b64encode(_png(found)).decode()}
    told = judged([feature], Truth(picture=_png(true)))["picture"]
    assert told["psnr"] == pytest.approx(psnr(found, true, 255.0))
    assert told["ssim"] == pytest.approx(ssim(found, true, 255.0))


def test_equal_pictures_have_no_finite_psnr() -> None:
    body = _png(RANDOM.integers(0, 256, (12, 12), dtype=np.uint8))
    feature = {"type": "image", "data": base64.b64encode(body).decode()}
    told = judged([feature], Truth(picture=body))["picture"]
    assert (told["psnr"], told["equal"]) == (None, True)


def test_other_answers_are_not_judged_here() -> None:
    assert judged([{"type": "classification"}], Truth(picture=_png([[1]]))) == {}
    assert judged([_map([[0, 1]], 1, 1)], Truth()) == {}


def test_an_answer_that_claims_a_huge_map_is_an_error_of_its_sample() -> None:
    truth = Truth(picture=_png([[0, 1], [1, 1]]))
    assert "100000000000" in judged([_map([[1, 10**11]], 1, 10**11)], truth)["error"]
    assert "runs against pixels" in judged([_map([[1, 10**11]], 2, 2)], truth)["error"]


def test_a_picture_that_claims_a_huge_size_is_an_error_of_its_sample() -> None:
    head = b"IHDR" + (10**5).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    png = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4, "big") + head + crc32(head).to_bytes(4, "big")
    feature = {"type": "image", "data": base64.b64encode(_png([[1]])).decode()}
    told = judged([feature], Truth(picture=png + b"\0\0\0\0IDAT"))
    assert "error" in told
    assert "picture" not in told
