"""Runs catalog models with random weights, in a process of their own.

    python -m tests.catalog.running NAME[@FRAMEWORK][:SIDE]...

A framework's threads, precision and environment are the process's; so no test shares one with it.
Prints one line of JSON a model: what it answered, or the error it ended with.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.assets.addresses import FileSource, PackageSource, Source
from mlscope.assets.packages import installed_file
from mlscope.manifests.ports import is_constant
from mlscope.manifests.variants import variant_for
from schemas.manifest import Assets, ModelManifest, Port
from services.agent.link.checked_files import source_of
from services.agent.predictors import OpenRequest, Tensors, predictor_named
from services.agent.worker.answers.non_finite import output_named
from services.agent.worker.queries.pipeline import pipeline_of, steps_of
from tests.catalog.answering import CATALOG, model_of
from tests.catalog.torchvision_here import importable

Array = npt.NDArray[Any]

PHOTOS = ("chelsea.jpg", "rocket.jpg")
SOUNDS = ("vowel_a.wav", "noise.wav")
BATCH = 2
TOLERANCE = 1e-3
_FEW = {
    "rpn_pre_nms_top_n_test": 50,
    "rpn_post_nms_top_n_test": 10,
    "box_detections_per_img": 3,
}
"""A detector's arguments for fewer boxes: each costs a lot in Python."""


def run(name: str, framework: str, side: int) -> dict[str, Any]:
    """Open a model, predict two samples, and the same two the other way round.

    A `side` above 0 is how many pixels its pictures have both ways, in place of its own.
    """
    model = _random(variant_for(model_of(name), framework))
    model = _sized(model, side) if side else model
    pipeline = pipeline_of(steps_of(model), lambda file: _lines(model.model, file))
    batch = 1 if model.inputs[0].shape[:1] == (1,) else BATCH
    samples = [_sample(model, number) for number in range(batch)]
    options = {**model.options, "threads": 1}
    request = OpenRequest(model, *_graph(model.model), batch_size=batch, options=options)
    predictor = predictor_named(model.framework.name)(request)
    try:
        answers = predictor.predict(_batch(model, samples))
        answers = {each: np.array(array) for each, array in answers.items()}
        turned = predictor.predict(_batch(model, samples[::-1]))
        return {
            "outputs": {each: list(array.shape) for each, array in answers.items()},
            "finite": all(np.isfinite(each).all() for each in answers.values()),
            "kept_apart": _kept_apart(model, answers, turned),
            "features": _features(pipeline, answers),
            "precision": predictor.opened.precision,
        }
    finally:
        predictor.close()


def _random(model: ModelManifest) -> ModelManifest:
    """Return a model with random weights where its own are on the web."""
    assets = model.model
    if not assets.builder:
        return model
    changes = {"weights": "random", "weights_path": "", "weights_checksum": ""}
    return model.model_copy(update={"model": assets.model_copy(update=changes)})


def _sized(model: ModelManifest, side: int) -> ModelManifest:
    """Return a model for square pictures; detectors, which scale these up, leave them as small."""
    (port,) = model.inputs
    shape = (port.shape[0], *(each if each in (1, 3) else side for each in port.shape[1:]))
    changes: dict[str, Any] = {}
    if model.options.get("call") == "list":
        changes = {**model.model.arguments, "min_size": side, "max_size": side}
        if "mask" in model.name or "keypoint" in model.name or "fasterrcnn" in model.name:
            changes |= _FEW
    steps = [
        {
            "operator": step.operator,
            "parameters": {**step.parameters, "dimensions": [3, side, side]},
        }
        if "dimensions" in step.parameters
        else step.model_dump()
        for step in port.steps
    ]
    small = port.model_copy(update={"shape": shape, "steps": Port(type="", steps=steps).steps})
    assets = model.model.model_copy(update={"arguments": changes or model.model.arguments})
    return model.model_copy(update={"inputs": (small,), "model": assets})


def _located(assets: Assets, name: str) -> Path:
    source: Source = source_of(assets, name)
    if isinstance(source, FileSource):
        return CATALOG / source.path
    assert isinstance(source, PackageSource), f"{source} is neither shipped nor of a package"
    path = installed_file(source)
    assert path is not None, f"{source.requirement} is not installed"
    return path


def _lines(assets: Assets, name: str) -> tuple[str, ...]:
    return tuple(_located(assets, name).read_text("utf-8").splitlines())


def _graph(assets: Assets) -> tuple[Path, bytes]:
    if not assets.graph_path:
        return Path(), b""
    path = _located(assets, assets.graph_path)
    return path, path.read_bytes()


def _sample(model: ModelManifest, number: int) -> dict[str, Array]:
    """Return one sample by input: a photo or a sound through the steps, or numbers from a seed."""
    pipeline = pipeline_of(steps_of(model), lambda file: _lines(model.model, file))
    made = {}
    for port, steps in zip(_supplied(model), pipeline.before, strict=True):
        value: Any = _body(port, number) if steps.steps else _numbers(port, number)
        for step in steps.steps:
            value = step.apply(value)
        made[port.layer_name] = np.asarray(value, port.element_type)
    return made


def _supplied(model: ModelManifest) -> list[Port]:
    return [port for port in model.inputs if not is_constant(port)]


def _body(port: Port, number: int) -> bytes:
    folder = CATALOG.parent / "datasets"
    if port.type == "image":
        return (folder / "photos" / PHOTOS[number]).read_bytes()
    if port.type == "audio":
        return (folder / "sounds" / SOUNDS[number]).read_bytes()
    return f"sample {number}: a few words, and more of them".encode()


def _numbers(port: Port, number: int) -> Array:
    random = np.random.default_rng(number)
    shape = tuple(max(size, 1) for size in port.shape[1:])
    if np.dtype(port.element_type).kind == "i":
        return random.integers(0, 100, shape)
    return random.random(shape, np.float32)


def _batch(model: ModelManifest, samples: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    batch = {}
    for port in model.inputs:
        if is_constant(port):
            sizes = tuple(len(samples) if size < 0 else size for size in port.shape)
            value = port.steps[0].parameters["value"]
            batch[port.layer_name] = np.full(sizes, value, port.element_type)
        else:
            batch[port.layer_name] = np.stack([each[port.layer_name] for each in samples])
    return batch


def _kept_apart(model: ModelManifest, answers: Tensors, turned: Tensors) -> bool:
    """Whether each sample's answer is the same in either place of the batch."""
    return all(
        np.allclose(answers[name], np.asarray(turned[name])[::-1], rtol=TOLERANCE, atol=TOLERANCE)
        for name in (port.layer_name for port in model.outputs)
        if not name.startswith("0.")
    )


def _features(pipeline: Any, answers: Tensors) -> list[int]:
    """Return how many features each output's steps make of the first sample."""
    counts = []
    for port in pipeline.after:
        value = output_named(answers, port.name)
        for step in port.steps:
            others = [output_named(answers, other) for other in step.extra_outputs]
            value = step.apply(value, *others)
        counts.append(len(value[0]) if port.steps else 1)
    return counts


def main() -> None:
    """Run each model named on the command line, as NAME or NAME@FRAMEWORK."""
    importable()
    for word in sys.argv[1:]:
        place, _, side = word.partition(":")
        name, _, framework = place.partition("@")
        began = time.monotonic()
        try:
            found = run(name, framework, int(side or 0))
        except Exception as error:  # noqa: BLE001  # told to the test, which fails
            found = {"error": f"{type(error).__name__}: {error}"}
        found["seconds"] = round(time.monotonic() - began, 2)
        sys.stdout.write(json.dumps({"name": word, **found}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
