"""Pictures normalised on the model's device: a quarter of the bytes, the same numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.manifest import Assets, FrameworkNeed, ModelManifest
from schemas.plan import Subject
from services.agent.errors import BadOption
from services.agent.link.allowances import Allowances
from services.agent.worker.files.normalizing import with_normalize_moved
from services.agent.worker.opening import open_session
from services.agent.worker.session import Session
from tests.services.agent.builders import MANIFESTS, a_subject

NORMALIZE: dict[str, dict[str, Any]] = {
    "torchvision": {"mean": [123.675, 116.28, 103.53], "scale": [58.395, 57.12, 57.375]},
    "one number": {"mean": 127.0, "scale": 128.0},
    "fractions": {
        "mean": [0.485, 0.456, 0.406],
        "scale": [0.229, 0.224, 0.225],
        "rescale_factor": 1 / 255,
    },
}


def steps(layout: str, **normalize: Any) -> list[dict[str, Any]]:
    return [
        {"decode": None, "color_mode": "RGB"},
        {"resize": None, "dimensions": [3, 32, 32], "method": "bilinear"},
        {"normalize": None, **normalize},
        {"cast": None, "element_type": "float32", "data_layout": layout},
    ]


def subject(place: str, before: list[dict[str, Any]], shape: list[int], **options: Any) -> Subject:
    """Return a model that answers with its input, as the predictor hands it to it."""
    model = ModelManifest.model_validate(
        {
            "name": "echo",
            "version": "1.0.0",
            "framework": {"name": "pytorch"},
            "inputs": [{"type": "image", "layer_name": "x", "shape": shape, "steps": before}],
            "outputs": [{"type": "raw", "layer_name": "y"}],
            "model": Assets(builder="torch.nn.Identity", weights="random"),
        }
    )
    chosen = {"threads": 1, "normalize": place, **options}
    photos = a_subject("efficientnet_lite0", "photos", framework="pytorch", options=chosen)
    return photos.model_copy(update={"model": model})


@contextmanager
def opened(folder: Path, what: Subject) -> Iterator[Session]:
    allowances = Allowances(builders=("torch.nn",))
    session = open_session(what, 2, MANIFESTS, folder, allowances=allowances)
    try:
        yield session
    finally:
        session.close()


@pytest.mark.parametrize("name", NORMALIZE)
@pytest.mark.parametrize(
    ("layout", "shape"), [("NCHW", [-1, 3, 32, 32]), ("NHWC", [-1, 32, 32, 3])]
)
def test_the_device_computes_the_numbers_of_the_host(
    tmp_path: Path, name: str, layout: str, shape: list[int]
) -> None:
    pytest.importorskip("torch")
    answers: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    layout = "NCHW" if shape[1] == 3 else "NHWC"
    for place in ("host", "device"):
        what = subject(place, steps(layout, **NORMALIZE[name]), list(shape))
        with opened(tmp_path / place, what) as session:
            slot = session.slots[0]
            answers[place] = session.predictor.predict(slot.inputs)["y"].copy()
            sizes[place] = sum(array.nbytes for array in slot.arrays)
            assert session.predictor.opened.options["normalize"] == place
            notes = [note for note in session.notes if "runs on the device" in note]
            assert len(notes) == (place == "device")
    assert sizes["device"] * 4 == sizes["host"]
    assert answers["host"].std() > 0.1
    np.testing.assert_allclose(answers["device"], answers["host"], rtol=0, atol=3e-7)
    assert "(cpu): over all values of a byte its numbers differ from the host's" in notes[0]


def test_a_model_of_half_precision_gets_its_own_numbers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    answers: list[Any] = []
    for place in ("host", "device"):
        before = steps("NCHW", **NORMALIZE["torchvision"])
        what = subject(place, before, [-1, 3, 32, 32], precision="bfloat16", channels_last=True)
        with opened(tmp_path / place, what) as session:
            answers.append(session.predictor.predict(session.slots[0].inputs)["y"].copy())
    np.testing.assert_array_equal(answers[0], answers[1])


@pytest.mark.parametrize(
    "before",
    [
        [],
        steps("NCHW")[:2],
        [*steps("NCHW")[:3], {"cast": None, "element_type": "float16"}],
        [{"bytes": None}, *steps("NCHW")[2:]],
        [*steps("NCHW"), {"layout": None, "order": [0, 1, 2]}],
    ],
)
def test_steps_that_do_not_allow_it_are_refused(before: list[dict[str, Any]]) -> None:
    with pytest.raises(BadOption, match="normalize"):
        with_normalize_moved(subject("device", before, [-1, 3, 32, 32]))


def test_nothing_changes_without_the_option_or_in_another_framework() -> None:
    on_host = subject("host", steps("NCHW"), [-1, 3, 32, 32])
    assert with_normalize_moved(on_host) == (on_host, ())
    need = FrameworkNeed(name="onnxruntime")
    other = subject("device", steps("NCHW"), [-1, 3, 32, 32])
    model = other.model.model_copy(update={"framework": need})
    elsewhere = other.model_copy(update={"framework": "onnxruntime", "model": model})
    assert with_normalize_moved(elsewhere) == (elsewhere, ())
