"""Traces a model by a framework's own capture and says what came of it: a process of its own.

`python -m tests.services.agent.predictors.tracing FOLDER FRAMEWORK...`, where FOLDER is one that
`benchmarks.consistency make` filled.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.consistency import REFERENCE, request
from mlscope.tracing.clock import now_ns
from services.agent.predictors import LayerSource, Predictor, Tensors, predictor_named

CALLS = 3
CHANNELS_LAST = ("tensorflow", "litert")


def traced(predictor: Predictor, inputs: Tensors) -> dict[str, Any]:
    """Return the layers of two captures' calls, and how the model answers before and after."""
    before = copied(predictor.predict(inputs))
    told: dict[str, Any] = {"deepest": int(predictor.opened.deepest_level), "captures": []}
    told["reason"] = predictor.opened.level_reason
    state = state_of(predictor)
    if isinstance(predictor, LayerSource):
        told["captures"] = [captured(predictor, inputs, before) for _ in range(2)]
    after = copied(predictor.predict(inputs))
    told["same_after"] = same(before, after)
    told["clean"] = state == state_of(predictor)
    return told


def captured(predictor: LayerSource, inputs: Tensors, wanted: Tensors) -> dict[str, Any]:
    """Return one capture's calls: each begin, end and layers."""
    capture = predictor.layers([inputs])
    spans, answers = [], []
    for _ in range(CALLS):
        began = now_ns()
        answers.append(copied(capture.predict(inputs)))
        spans.append((began, now_ns()))
    calls = capture.close()
    layers = [
        [[each.name, each.start_ns, each.duration_ns, json.loads(each.attributes)] for each in call]
        for call in calls
    ]
    differ = max(difference(wanted, answer) for answer in answers)
    return {"spans": spans, "layers": layers, "difference": differ, "notes": list(capture.notes)}


def state_of(predictor: Predictor) -> list[str]:
    """Return what lies on a PyTorch model's instances that is not its own."""
    module: Any = getattr(predictor, "module", None)
    if not hasattr(module, "named_modules"):
        return []
    hooks = ("_forward_hooks", "_forward_pre_hooks")
    return [
        f"{name}:{'forward' in vars(each)}:{[len(vars(each).get(hook, ())) for hook in hooks]}"
        for name, each in module.named_modules()
    ]


def copied(outputs: Tensors) -> dict[str, Any]:
    """Return outputs that no later call writes over."""
    return {name: np.array(each) for name, each in outputs.items()}


def same(one: Tensors, other: Tensors) -> bool:
    """Whether two answers are equal, bit by bit."""
    return all(np.array_equal(each, other[name]) for name, each in one.items())


def difference(one: Any, other: Any) -> float:
    """Return how far two answers are apart at most."""
    return max(float(np.abs(np.subtract(each, other[name])).max()) for name, each in one.items())


def told_of(framework: str, folder: Path) -> dict[str, Any]:
    """Return what came of one framework."""
    name = REFERENCE if framework == "torchscript" else framework
    predictor = predictor_named(name)(request(framework, folder, 1))
    shape = (1, 224, 224, 3) if framework in CHANNELS_LAST else (1, 3, 224, 224)
    random = np.random.default_rng(5).standard_normal(shape, np.float32)
    try:
        return traced(predictor, {predictor.opened.inputs[0].name: random})
    finally:
        predictor.close()


def main() -> None:
    """Print what came of each framework, as JSON."""
    folder = Path(sys.argv[1])
    sys.stdout.write(json.dumps({name: told_of(name, folder) for name in sys.argv[2:]}))


if __name__ == "__main__":
    main()
