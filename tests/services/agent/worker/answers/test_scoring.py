"""Truths beside answers: small ones whole, pictures as what their metrics need."""

import base64
import io
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from PIL import Image

from mlscope.accuracy import psnr, ssim
from mlscope.datasets.truth import Objects, Truth
from schemas.manifest import Step, step_of
from services.agent.steps import Operator, operator_of
from services.agent.worker.answers.scoring import ImagePlacement, image_scores, truth_fields
from services.agent.worker.queries.pipeline import Pipeline, PortOperators

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
    assert truth_fields(Truth(), b"[]") == {}
    assert truth_fields(Truth("q1", texts=()), b"[]") == {"name": "q1", "texts": ()}
    assert truth_fields(Truth(values=np.array([1.0])), b"[]") == {"values": [1.0]}


def test_masks_go_with_masks_alone() -> None:
    truth = Truth(objects=_objects({"size": [20, 10], "counts": [200]}))
    with_boxes = truth_fields(truth, b'[{"type":"boundingbox"}]')["objects"]
    assert with_boxes["boxes"] == [[1.0, 2.0, 3.0, 4.0]]
    assert (with_boxes["size"], with_boxes["crowd"]) == ([20, 10], [0])
    assert "segmentations" not in with_boxes
    for answer in (b'[{"type":"instancesegment"}]', b"[]"):
        with_masks = truth_fields(truth, answer)["objects"]
        assert with_masks["segmentations"] == [{"size": [20, 10], "counts": [200]}]


def _map(runs: list[list[int]], *size: int) -> dict[str, Any]:
    return {"type": "semanticsegment", "size": list(size), "runs": runs}


def test_pixels_are_counted_by_label_and_answer() -> None:
    truth = Truth(picture=_png([[0, 0, 1], [1, 255, 1]]))
    found = image_scores([_map([[0, 3], [2, 1], [1, 2]], 2, 3)], truth)
    assert found == {
        "pixels": {"counts": [[0, 0, 2], [1, 0, 1], [1, 1, 1], [1, 2, 1]], "ignored": 1}
    }


def test_a_palette_s_indices_are_the_classes() -> None:
    image = Image.fromarray(np.array([[0, 1]], np.uint8), "P")
    image.putpalette([9, 9, 9, 200, 0, 0])
    file = io.BytesIO()
    image.save(file, "PNG")
    found = image_scores([_map([[1, 2]], 1, 2)], Truth(picture=file.getvalue()))
    assert found["pixels"]["counts"] == [[0, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("picture", "why"),
    [
        (_png(np.zeros((2, 2, 3))), "one number per pixel"),
        (b"torn", "identify"),
    ],
    ids=["colours", "torn"],
)
def test_a_map_that_does_not_fit_is_an_error_of_its_sample(picture: bytes, why: str) -> None:
    assert why in image_scores([_map([[0, 4]], 2, 2)], Truth(picture=picture))["error"]


def test_a_map_of_another_size_is_stretched_to_the_label_s() -> None:
    labels = RANDOM.integers(0, 3, (8, 10), dtype=np.uint8)
    seen = RANDOM.integers(0, 3, (4, 6), dtype=np.uint8)
    grown = np.asarray(Image.fromarray(seen).resize((10, 8), Image.Resampling.NEAREST))
    answer = _map([[int(each), 1] for each in seen.ravel()], 4, 6)
    found = image_scores([answer], Truth(picture=_png(labels)))["pixels"]
    pairs, counts = np.unique(
        np.stack([labels.ravel(), grown.ravel()], 1), axis=0, return_counts=True
    )
    assert found["counts"] == [[*map(int, pair), n] for pair, n in zip(pairs, counts, strict=True)]
    assert found["resized"] == [4, 6]


def _before(*steps: Any, code: bool = False) -> Pipeline:
    """Return what is before a model of one input."""
    made = [Step.model_validate(step_of(each)) for each in steps]
    port = PortOperators("x", tuple(operator_of(each, lambda _: ()) for each in made))
    code_before = (Operator("preprocess", lambda values: values),) if code else ()
    return Pipeline(before=(port,), code_before=code_before)


def _answer(seen: Any) -> dict[str, Any]:
    """Return a map of classes, a run a pixel."""
    return _map([[int(each), 1] for each in seen.ravel()], *seen.shape)


def _counts(labels: Any, seen: Any, kept: Any = True) -> list[list[int]]:
    pairs, counts = np.unique(
        np.stack([labels, seen], 2)[np.broadcast_to(kept, labels.shape)], axis=0, return_counts=True
    )
    return [[*map(int, pair), int(n)] for pair, n in zip(pairs, counts, strict=True)]


HALF = {"resize": {"dimensions": [4, 8], "method": "nearest"}}
COVER = {"resize": {"dimensions": [4, 4], "keep_aspect_ratio": True, "method": "nearest"}}
FIT = {"resize": {**COVER["resize"], "fit": "inside"}}
CENTRE, BOX = {"crop": {"dimensions": [4, 4]}}, {"pad": {"dimensions": [4, 4]}}


def test_a_map_of_a_centre_is_judged_there() -> None:
    labels = np.repeat(np.repeat(RANDOM.integers(0, 3, (4, 8), dtype=np.uint8), 2, 0), 2, 1)
    middle = labels[::2, ::2][:, 2:6]
    told = image_scores(
        [_answer(middle)], Truth(picture=_png(labels)), ImagePlacement.of(_before(HALF, CENTRE))
    )
    centre = (np.arange(16) >= 4) & (np.arange(16) < 12)
    assert told["pixels"]["counts"] == _counts(labels, labels, centre[None, :])
    assert (told["pixels"]["unseen"], told["pixels"]["resized"]) == (64, [4, 4])
    same = image_scores(
        [_answer(middle)], Truth(picture=_png(labels)), ImagePlacement.of(_before(COVER, CENTRE))
    )
    assert same == told


def test_a_map_of_a_padded_picture_loses_its_border() -> None:
    labels = np.repeat(np.repeat(RANDOM.integers(0, 3, (2, 4), dtype=np.uint8), 2, 0), 2, 1)
    boxed = np.pad(labels[::2, ::2], ((1, 1), (0, 0)), constant_values=7)
    told = image_scores(
        [_answer(boxed)], Truth(picture=_png(labels)), ImagePlacement.of(_before(FIT, BOX))
    )
    assert told["pixels"]["counts"] == _counts(labels, labels)
    assert "unseen" not in told["pixels"]


def test_a_map_as_large_as_its_picture_is_placed_too() -> None:
    labels = RANDOM.integers(0, 3, (4, 4), dtype=np.uint8)
    twice = {"resize": {"dimensions": [8, 8], "method": "nearest"}}
    seen = np.repeat(np.repeat(labels, 2, 0), 2, 1)[2:6, 2:6]
    told = image_scores(
        [_answer(seen)], Truth(picture=_png(labels)), ImagePlacement.of(_before(twice, CENTRE))
    )
    inner = np.zeros((4, 4), bool)
    inner[1:3, 1:3] = True
    assert told["pixels"]["counts"] == _counts(labels, labels, inner)
    assert told["pixels"]["unseen"] == 12
    uncut = image_scores(
        [_answer(labels)], Truth(picture=_png(labels)), ImagePlacement.of(_before(CENTRE))
    )
    assert uncut == {"pixels": {"counts": _counts(labels, labels), "ignored": 0}}


def test_pixels_that_nobody_labelled_are_not_unseen() -> None:
    labels = np.full((4, 8), 255, np.uint8)
    labels[:, 3:5] = 1
    placing = ImagePlacement.of(_before(CENTRE))
    told = image_scores([_answer(np.ones((4, 4), int))], Truth(picture=_png(labels)), placing)
    assert told == {"pixels": {"counts": [[1, 1, 8]], "ignored": 24, "resized": [4, 4]}}


@pytest.mark.parametrize(
    ("placing", "why"),
    [
        (ImagePlacement.of(_before(code=True)), "inline code"),
        (
            ImagePlacement.of(
                replace(_before(), before=(*_before(HALF).before, *_before(BOX).before))
            ),
            "inputs show different parts",
        ),
    ],
    ids=["code", "inputs"],
)
def test_where_nobody_knows_what_a_map_shows_its_sample_says_so(
    placing: ImagePlacement, why: str
) -> None:
    truth = Truth(picture=_png([[0, 1, 1]]))
    assert why in image_scores([_map([[0, 4]], 2, 2)], truth, placing)["error"]
    assert "pixels" in image_scores([_map([[0, 3]], 1, 3)], truth, placing)


def test_a_map_of_nothing_that_is_labelled_says_so() -> None:
    labels = np.full((4, 8), 255, np.uint8)
    labels[:, 0] = 1
    placing = ImagePlacement.of(_before(CENTRE))
    told = image_scores([_answer(np.ones((4, 4), int))], Truth(picture=_png(labels)), placing)
    assert "no labelled pixel" in told["error"]


def test_an_empty_map_is_an_error_of_its_sample() -> None:
    assert "error" in image_scores([_map([], 0, 5)], Truth(picture=_png([[0, 1]])))


def test_pictures_are_compared_by_their_pixels() -> None:
    true = RANDOM.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    found = np.clip(true.astype(int) + 3, 0, 255).astype(np.uint8)
    feature = {"type": "image", "data": base64.b64encode(_png(found)).decode()}
    told = image_scores([feature], Truth(picture=_png(true)))["picture"]
    assert told["psnr"] == pytest.approx(psnr(found, true, 255.0))
    assert told["ssim"] == pytest.approx(ssim(found, true, 255.0))


def test_equal_pictures_have_no_finite_psnr() -> None:
    body = _png(RANDOM.integers(0, 256, (12, 12), dtype=np.uint8))
    feature = {"type": "image", "data": base64.b64encode(body).decode()}
    told = image_scores([feature], Truth(picture=body))["picture"]
    assert (told["psnr"], told["equal"]) == (None, True)


def _likeness(found: Any, true: Any) -> dict[str, Any]:
    feature = {"type": "image", "data": base64.b64encode(_png(found)).decode()}
    return image_scores([feature], Truth(picture=_png(true)))


def test_pictures_of_two_sizes_say_so() -> None:
    told = _likeness(np.zeros((24, 24, 3)), np.zeros((12, 12, 3)))
    assert told == {"error": "pictures [height, width]: (24, 24) against (12, 12)"}


def test_a_grey_picture_is_compared_with_colours() -> None:
    grey = RANDOM.integers(0, 256, (16, 16), dtype=np.uint8)
    coloured = np.stack([grey] * 3, 2)
    assert _likeness(grey, coloured)["picture"]["equal"] is True
    found = _likeness(coloured, np.zeros((16, 16)))["picture"]
    assert found["psnr"] == pytest.approx(psnr(coloured, np.zeros_like(coloured), 255.0))


def test_a_picture_too_small_for_one_metric_has_the_other() -> None:
    told = _likeness(np.full((8, 8, 3), 9), np.full((8, 8, 3), 19))["picture"]
    assert told["psnr"] == pytest.approx(10 * np.log10(255**2 / 100))
    assert (told["ssim"], told["no_ssim"]) == (None, "shortest side is 8, allowed is 11 or more")


def test_other_answers_are_not_judged_here() -> None:
    assert image_scores([{"type": "classification"}], Truth(picture=_png([[1]]))) == {}
    assert image_scores([_map([[0, 1]], 1, 1)], Truth()) == {}


def test_an_answer_that_claims_a_huge_map_is_an_error_of_its_sample() -> None:
    truth = Truth(picture=_png([[0, 1], [1, 1]]))
    assert "100000000000" in image_scores([_map([[1, 10**11]], 1, 10**11)], truth)["error"]
    assert "runs against pixels" in image_scores([_map([[1, 10**11]], 2, 2)], truth)["error"]


def test_a_picture_that_claims_a_huge_size_is_an_error_of_its_sample() -> None:
    head = b"IHDR" + (10**5).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    png = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4, "big") + head + crc32(head).to_bytes(4, "big")
    feature = {"type": "image", "data": base64.b64encode(_png([[1]])).decode()}
    told = image_scores([feature], Truth(picture=png + b"\0\0\0\0IDAT"))
    assert "error" in told
    assert "picture" not in told
