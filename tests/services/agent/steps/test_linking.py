"""Linked steps: the same tensors as with an array between any two steps, with fewer copies."""

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from benchmarks.earlier_steps import earlier_step
from schemas.manifest import Step
from services.agent.steps import Operator, operator_of
from services.agent.steps.linking import linked
from services.agent.worker.queries.query import put_sample
from tests.services.agent.builders import MANIFESTS

PHOTOS = sorted((MANIFESTS / "datasets" / "photos").glob("*.jpg"))
SIDES = st.integers(1, 30)
MODES = st.sampled_from(["RGB", "L", "RGBA", "BGR"])
LAYOUTS = st.sampled_from(["HWC", "NCHW"])
METHODS = st.sampled_from(["nearest", "bilinear", "bicubic", "area", "hamming", "lanczos"])
NUMBERS = st.floats(0.5, 200, width=32) | st.just([123.675, 116.28, 103.53])


def step(operator: str, /, **parameters: Any) -> Step:
    return Step(operator=operator, parameters=parameters)


def operators_of(*steps: Step) -> tuple[Operator, ...]:
    return linked([operator_of(one, lambda _: ()) for one in steps])


RESNET = (
    step("decode"),
    step("resize", dimensions=[232, 232], keep_aspect_ratio=True),
    step("crop", dimensions=[224, 224]),
    step("normalize", mean=[123.675, 116.28, 103.53], scale=[58.395, 57.12, 57.375]),
    step("cast", data_layout="CHW"),
)


def in_batch(operators: tuple[Operator, ...], value: Any, like: Any) -> Any:
    """Return the place in a batch that a sample was put to, and whether its last step did."""
    batch = np.zeros((2, *like.shape), like.dtype)
    for operator in operators:
        place = (batch[1],) if operator.takes_place else ()
        value = operator.apply(value, *place)
    put_sample(batch, 1, value)
    assert not batch[0].any()
    return batch[1], np.shares_memory(batch, value)


def with_arrays_between(steps: tuple[Step, ...], value: Any) -> Any:
    for one in steps:
        value = earlier_step(one)(value)
    return value


@st.composite
def geometry(draw: st.DrawFn) -> list[Step]:
    sides = draw(st.lists(SIDES, min_size=2, max_size=2))
    resizes: list[dict[str, Any]] = [
        {"dimensions": sides, "keep_aspect_ratio": draw(st.booleans())},
        {"dimensions": sides, "keep_aspect_ratio": True, "fit": "inside"},
        {"max_dimension": draw(SIDES)},
    ]
    others = [
        step(
            "crop",
            ratio=draw(st.floats(0.1, 1)),
            method=draw(st.sampled_from(["center", "top_left"])),
        ),
        step("pad", multiple=draw(st.integers(1, 9)), value=draw(st.integers(0, 255))),
        step("resize", method=draw(METHODS), **draw(st.sampled_from(resizes))),
    ]
    return draw(st.lists(st.sampled_from(others), max_size=3))


@st.composite
def numeric(draw: st.DrawFn) -> list[Step]:
    layouts, kinds = draw(LAYOUTS), draw(st.sampled_from(["float32", "float16", "int32"]))
    factor = draw(st.sampled_from([1.0, 1 / 255]))
    normalize = step("normalize", mean=draw(NUMBERS), scale=draw(NUMBERS), rescale_factor=factor)
    last = [
        [step("cast", element_type=kinds, data_layout=layouts)],
        [step("layout", to="CHW"), step("cast", element_type=kinds)],
        [step("cast", element_type=kinds), step("layout", to="WCH")],
        [step("layout", to="CHW"), step("layout", **{"from": "CHW", "to": "WHC"})],
        [],
    ]
    return [*draw(st.sampled_from([[normalize], []])), *draw(st.sampled_from(last))]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    seed, shape = draw(st.integers(0, 99)), (draw(SIDES), draw(SIDES), 4)
    pixels = Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, np.uint8))
    kind, mode = draw(
        st.sampled_from(
            [
                ("PNG", "RGBA"),
                ("PNG", "P"),
                ("PNG", "L"),
                ("JPEG", "RGB"),
                ("JPEG", "L"),
                ("WEBP", "RGB"),
            ]
        )
    )
    file = io.BytesIO()
    pixels.convert("RGB" if mode == "P" else mode).convert(mode).save(file, kind, lossless=True)
    return file.getvalue()


@given(files(), MODES, geometry(), numeric())
def test_linked_steps_make_the_same_tensor_in_every_bit(
    body: bytes, mode: str, geometric: list[Step], numbers: list[Step]
) -> None:
    if mode in ("L", "RGBA"):
        numbers = [one for one in numbers if one.operator != "normalize"]
    steps = (step("decode", color_mode=mode), *geometric, *numbers)
    expected = with_arrays_between(steps, body)
    place, _ = in_batch(operators_of(*steps), body, expected)
    assert np.array_equal(place, expected)


@pytest.mark.parametrize("path", PHOTOS, ids=lambda path: path.stem)
def test_a_photograph_is_prepared_as_before_without_copies(path: Any) -> None:
    body = path.read_bytes()
    expected = with_arrays_between(RESNET, body)
    place, is_written_there = in_batch(operators_of(*RESNET), body, expected)
    assert np.array_equal(place, expected)
    assert is_written_there


def test_a_picture_stays_in_pillow_between_its_steps() -> None:
    decode, resize, crop, *_ = operators_of(*RESNET)
    picture = decode.apply(PHOTOS[0].read_bytes())
    resized = resize.apply(picture)
    assert isinstance(picture, Image.Image)
    assert isinstance(resized, Image.Image)
    assert crop.apply(resized).shape == (224, 224, 3)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "MPO"])
def test_of_several_pictures_in_a_file_the_first_is_taken(kind: str) -> None:
    first, second = (Image.new("RGB", (9, 7), colour) for colour in ("red", "blue"))
    file = io.BytesIO()
    options: dict[str, Any] = {} if kind == "MPO" else {"lossless": True}
    first.save(file, kind, save_all=True, append_images=[second], **options)
    steps = (step("decode"), step("resize", dimensions=4))
    expected = with_arrays_between(steps, file.getvalue())
    assert np.array_equal(in_batch(operators_of(*steps), file.getvalue(), expected)[0], expected)
    assert expected[0, 0, 0] > 200


@pytest.mark.parametrize(
    ("shape", "kind"), [((3, 10, 10), np.float32), ((3, 8, 8), np.float16), ((8, 8), np.float32)]
)
def test_a_place_that_does_not_fit_is_left_as_it_is(shape: tuple[int, ...], kind: Any) -> None:
    normalize, cast = operators_of(step("normalize", mean=1.0), step("cast", data_layout="CHW"))
    pixels = np.full((8, 8, 3), 5, np.uint8)
    place = np.zeros(shape, kind)
    value = cast.apply(normalize.apply(pixels, place))
    assert (value.shape, value.dtype, value.min()) == ((3, 8, 8), np.float32, 4.0)
    assert not place.any()


def test_without_a_place_a_linked_step_returns_its_result() -> None:
    normalize, cast = operators_of(step("normalize", mean=1.0), step("cast", data_layout="CHW"))
    assert cast.apply(normalize.apply(np.full((2, 4, 3), 5, np.uint8))).shape == (3, 2, 4)


def test_a_broken_step_says_the_same_as_without_links() -> None:
    decode, crop = operators_of(step("decode"), step("crop", dimensions=[2000, 2000]))
    with pytest.raises(ValueError, match="not a readable JPEG, PNG or WebP picture"):
        decode.apply(PHOTOS[0].read_bytes()[:5000])
    said = r"\(\d+, \d+\) is smaller than the crop \(2000, 2000\)"
    with pytest.raises(ValueError, match=said):
        crop.apply(decode.apply(PHOTOS[0].read_bytes()))
