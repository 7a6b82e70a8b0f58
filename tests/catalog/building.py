"""Builds catalog models, without memory where they can be, in a process of their own.

    python -m tests.catalog.building torch|keras NAME...

PyTorch's are built on the meta device; Keras', which is built by many frameworks, with PyTorch's
under it, on the same device. Prints a line of JSON a model: its parameters, or the error.
"""

import json
import os
import sys
import warnings
from importlib import import_module
from typing import Any

from schemas.manifest import ModelManifest
from services.agent.default_builders import BUILDERS
from services.agent.predictors.building import build
from tests.catalog.answering import model_of
from tests.catalog.torchvision_here import importable


def with_torch(model: ModelManifest) -> int:
    """Return how many parameters a model has; what is quantized is so on no meta device."""
    torch: Any = import_module("torch")
    assets = model.model
    arguments = {**assets.arguments, "quantize": False} if _quantizes(model) else assets.arguments
    try:
        with torch.device("meta"):
            built = build(model.name, assets.builder, arguments, BUILDERS)
    except NotImplementedError:  # RegNets compute their sizes with tensors
        built = build(model.name, assets.builder, arguments, BUILDERS)
    return sum(each.numel() for each in built.parameters())


def with_keras(model: ModelManifest) -> int:
    """Return how many parameters a model has."""
    keras: Any = import_module("keras")
    assets = model.model
    built = build(model.name, assets.builder, assets.arguments, BUILDERS)
    keras.backend.clear_session()
    return int(built.count_params())


def _quantizes(model: ModelManifest) -> bool:
    return bool(model.model.arguments.get("quantize"))


def main() -> None:
    """Build each model named on the command line."""
    warnings.simplefilter("ignore")
    kind, *names = sys.argv[1:]
    os.environ |= {"KERAS_BACKEND": "torch", "KERAS_TORCH_DEVICE": "meta"}
    importable()
    for name in names:
        try:
            model = model_of(name)
            found: dict[str, Any] = {
                "parameters": with_keras(model) if kind == "keras" else with_torch(model)
            }
        except Exception as error:  # noqa: BLE001  # told to the test, which fails
            found = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps({"name": name, **found}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
