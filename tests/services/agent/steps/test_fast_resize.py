"""fast_image_resize in place of Pillow: how far its pixels are, and what it does not take."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from schemas.manifest import Step
from services.agent.errors import BadParameter, PackageMissing
from services.agent.steps import operator_of
from services.agent.steps.linking import linked
from services.agent.worker.opening import open_session
from tests.services.agent.builders import MANIFESTS, a_subject
from tests.services.agent.steps.applying import apply, made

PHOTOS = sorted((MANIFESTS / "datasets" / "photos").glob("*.jpg"))
FAST: dict[str, Any] = {"library": "fast_image_resize"}
needs_package = pytest.mark.skipif(
    find_spec("cykooz_resizer") is None, reason="needs cykooz-resizer"
)


def pixels_of(path: Path) -> Any:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


@needs_package
@pytest.mark.parametrize(("method", "most"), [("bilinear", 1), ("bicubic", 12)])
def test_photographs_are_pillow_s_but_for_rounding(method: str, most: int) -> None:
    size = {"dimensions": 232, "keep_aspect_ratio": True, "method": method}
    for path in PHOTOS:
        pixels = pixels_of(path)
        fast, exact = (apply("resize", pixels, **size, **more) for more in (FAST, {}))
        distances = np.abs(fast.astype(int) - exact)
        assert distances.max() <= most
        assert distances.mean() < 0.25


@needs_package
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_linked_to_decode_it_is_the_same(mode: str) -> None:
    body = PHOTOS[1].read_bytes()
    steps = [
        Step(operator="decode", parameters={"color_mode": mode}),
        Step(operator="resize", parameters={"dimensions": [99, 77], **FAST}),
    ]
    operators = [operator_of(step, lambda _: ()) for step in steps]
    values = []
    for chain in (operators, linked(operators)):
        decode, resize = chain
        values.append(resize.apply(decode.apply(body)))
    assert values[0].shape == (99, 77, 3 if mode == "RGB" else 1)
    assert np.array_equal(*values)


@needs_package
def test_planes_of_floats_are_resized_too() -> None:
    pixels = np.random.default_rng(1).random((40, 30, 2), np.float32)
    fast, exact = (apply("resize", pixels, dimensions=[17, 19], **more) for more in (FAST, {}))
    assert fast.dtype == np.float32
    assert np.allclose(fast, exact, atol=1e-5)


@needs_package
def test_its_difference_is_measured_when_it_is_opened() -> None:
    (note,) = made("resize", dimensions=8, **FAST).notes
    said = re.fullmatch(
        r"resize is by fast_image_resize \(cykooz-resizer [\d.]+\): on a picture of noise its"
        r" pixels are up to (\d+) of 255 from Pillow's, and (\d+)% of them differ",
        note,
    )
    assert said
    assert 0 < int(said[1]) <= 2
    assert 0 < int(said[2]) < 50
    assert made("resize", dimensions=8).notes == ()


@needs_package
def fast(step: Step) -> Step:
    """Return a step that resizes by the fast library."""
    return step.model_copy(update={"parameters": {**step.parameters, **FAST}})


def test_a_session_notes_it(tmp_path: Path) -> None:
    subject = a_subject("efficientnet_lite0", "photos")
    (port,) = subject.model.inputs
    steps = (fast(step) if step.operator == "resize" else step for step in port.steps)
    inputs = (port.model_copy(update={"steps": tuple(steps)}),)
    model = subject.model.model_copy(update={"inputs": inputs})
    session = open_session(subject.model_copy(update={"model": model}), 1, MANIFESTS, tmp_path)
    session.close()
    assert any("resize is by fast_image_resize" in note for note in session.notes)
    libraries = session.conditions(None, {}).prepared_by
    assert re.fullmatch(r"Pillow .* \(libjpeg.* [\d.]+\), fast_image_resize \(.*\)", libraries)


@needs_package
def test_transparency_is_refused() -> None:
    with pytest.raises(ValueError, match="takes 1 or 3 channels, not RGBA"):
        apply("resize", np.zeros((8, 8, 4), np.uint8), dimensions=4, **FAST)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"method": "lanczos"}, "library must be pillow with lanczos"),
        ({"antialias": False}, "library must be pillow with bilinear and antialias false"),
        ({"library": "opencv"}, "library must be one of pillow, fast_image_resize"),
    ],
)
def test_other_filters_are_pillow_s_alone(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        made("resize", dimensions=4, **{**FAST, **parameters})


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cykooz_resizer", None)
    with pytest.raises(PackageMissing, match=r"pip install 'mlscope\[resizing\]'"):
        made("resize", dimensions=4, **FAST)


@needs_package
def test_a_pillow_that_it_cannot_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AttributeError("no unsafe_ptrs")

    monkeypatch.setattr("cykooz_resizer.Resizer.resize_pil", refuse)
    with pytest.raises(PackageMissing, match=r"cykooz-resizer .* and this Pillow: no unsafe_ptrs"):
        made("resize", dimensions=4, **FAST)
