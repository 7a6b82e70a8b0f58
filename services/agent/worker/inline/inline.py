"""Inline Python of manifests as operators: `def fun(env, data)`, in a process that only computes.

Code before the model takes one sample as the dataset returns it (bytes, an array, a map for several
inputs) and returns the input's tensor without batch dimension, or for several inputs a map by layer
name or a list in the manifest's order. Code after the model takes the outputs of one batch (an
array, or a map by name) and returns one answer for each sample: a list of features, or an array.
The `before_` and `after_` functions around it may change the data, or return None. The codes of a
side share their global names and one `env` with model, framework, device, options, batch size,
inputs and outputs; `assets` holds the manifest's further files as bytes, because code can't open
files. Code after the model that contains the text `samples` finds the samples of its batch in
`env["samples"]`, None in the places of bad ones: for the sizes of images, contexts of questions.
"""

import ast
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from schemas.manifest import PLACEHOLDERS, ModelManifest, Port
from schemas.manifest.operators import step_faults
from schemas.plan import Subject
from services.agent.errors import CodeFailed, CodeRefused
from services.agent.link.allowances import InlineLimits
from services.agent.steps import Operator
from services.agent.worker.inline.process import InlineProcess
from services.agent.worker.inline.wire import SAMPLES
from services.agent.worker.queries.pipeline import CODE_AFTER, CODE_BEFORE

_MOST_DEPTH = 64


def inline_codes(model: ModelManifest, names: Sequence[str]) -> dict[str, str]:
    """Return a side's codes by name, in their order. Raises CodeFailed for a placeholder."""
    codes = {name: str(getattr(model, name)) for name in names}
    for name, text in codes.items():
        if text.strip() in PLACEHOLDERS:
            raise CodeFailed(name, f"{text.strip()} stands for code that the manifest leaves out")
    return {name: text for name, text in codes.items() if text.strip()}


def check_code(model: ModelManifest, limits: InlineLimits | None) -> None:
    """Check that a model's code can be run here, before anything is opened for it.

    Raises CodeFailed for a placeholder, and for code together with steps; CodeRefused where
    `limits` is None and the model has code.
    """
    has_code = bool(inline_codes(model, CODE_BEFORE) or inline_codes(model, CODE_AFTER))
    if not has_code:
        return
    if limits is None:
        raise CodeRefused(model.name)
    for fault in step_faults(model):
        raise CodeFailed(fault.path, f"found {fault.found}, allowed: {fault.allowed}")


@dataclass(frozen=True, slots=True)
class InlineCode:
    """A model's code as operators, for one sample before the model and one batch after it."""

    before: tuple[Operator, ...] = ()
    after: tuple[Operator, ...] = ()
    processes: tuple[InlineProcess, ...] = ()

    def close(self) -> None:
        """End its processes."""
        for process in self.processes:
            process.close()


def open_inline(
    subject: Subject,
    batch_size: int,
    limits: InlineLimits | None,
    supplied: Sequence[str],
    further: Callable[[], Mapping[str, bytes]] = dict,
) -> InlineCode:
    """Start the processes of a `subject`'s code, for one `batch_size`, within `limits`.

    `supplied` names the inputs that samples fill; `further` returns the model's further files.
    Raises CodeRefused where `limits` is None, and CodeFailed.
    """
    model = subject.model
    before, after = inline_codes(model, CODE_BEFORE), inline_codes(model, CODE_AFTER)
    if not before and not after:
        return InlineCode()
    if limits is None:
        raise CodeRefused(model.name)
    env = env_of(subject, batch_size) | {"assets": dict(further())}
    processes: list[InlineProcess] = []
    with contextlib.ExitStack() as undo:
        for codes in filter(None, (before, after)):
            process = InlineProcess(codes, env, limits)
            undo.callback(process.close)
            process.start()
            processes.append(process)
        undo.pop_all()
    last_before, last_after = partial(_inputs, supplied), partial(_answers, batch_size)
    return InlineCode(
        _operators(processes[0], before, last_before, is_after=False) if before else (),
        _operators(processes[-1], after, last_after, is_after=True) if after else (),
        tuple(processes),
    )


def env_of(subject: Subject, batch_size: int) -> dict[str, Any]:
    """Return the `env` of code: the request and the model."""
    model = subject.model
    return {
        "model": model.name,
        "version": model.version,
        "task": model.task,
        "framework": subject.framework,
        "framework_version": subject.framework_version,
        "device": subject.device,
        "options": dict(subject.options),
        "batch_size": batch_size,
        "dataset": subject.dataset.name,
        "inputs": [_port_fields(port) for port in model.inputs],
        "outputs": [_port_fields(port) for port in model.outputs],
        "attributes": model.model_dump(mode="json", include={"attributes"})["attributes"],
    }


def _port_fields(port: Port) -> dict[str, Any]:
    fields = port.model_dump(mode="json", include={"type", "layer_name", "shape", "description"})
    return {**fields, "element_type": port.element_type}


class _Call:
    """One function of a side; data stay in its process between the first and the last function."""

    def __init__(self, process: InlineProcess, name: str, finish: Any, *, first: bool) -> None:
        self._process, self._name, self._finish = process, name, finish
        self._is_first = first

    def __call__(self, value: Any, *samples: Any) -> Any:
        arguments = (value, *samples) if self._is_first else ()
        result = self._process.call(self._name, arguments, wants_answer=self._finish is not None)
        return result if self._finish is None else self._finish(result)


def _operators(
    process: InlineProcess, codes: Mapping[str, str], finish: Any, *, is_after: bool
) -> tuple[Operator, ...]:
    """Return a side's functions; the last one's result goes through `finish`.

    Code after the model that contains the text `samples` gets the samples, too.
    """
    *_, last = codes
    wants_samples = is_after and any(map(_contains_samples, codes.values()))
    return tuple(
        Operator(
            name,
            _Call(process, name, finish if name == last else None, first=number == 0),
            wants_samples=wants_samples and number == 0,
        )
        for number, name in enumerate(codes)
    )


def _contains_samples(code: str) -> bool:
    """Return whether code contains the text `samples`: sending a batch for nothing is expensive."""
    try:
        parsed = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # reported when it is run
    return any(
        isinstance(node, ast.Constant) and node.value == SAMPLES for node in ast.walk(parsed)
    )


def _inputs(supplied: Sequence[str], result: Any) -> Any:
    """Return the inputs as the pipeline takes them. Raises ValueError."""
    if len(supplied) == 1:
        is_map = isinstance(result, dict) and supplied[0] in result
        return result[supplied[0]] if is_map else result
    if isinstance(result, dict):
        return result
    if not isinstance(result, list) or len(result) != len(supplied):
        raise ValueError(f"does not return a map or list of the inputs {', '.join(supplied)}")
    return dict(zip(supplied, result, strict=True))


def _answers(batch_size: int, result: Any) -> Sequence[Any]:
    """Return a batch's answers, one for each sample: features, or a tensor. Raises ValueError."""
    if not isinstance(result, np.ndarray | list) or len(result) != batch_size:
        count = f"{len(result)} answers" if isinstance(result, np.ndarray | list) else "no list"
        raise ValueError(f"returns {count}, but a batch has {batch_size}")
    if isinstance(result, np.ndarray):
        return list(result)
    return [_features(answer) for answer in result]


def _features(answer: Any) -> Any:
    """Return an answer as features, or as a tensor. Raises ValueError."""
    features = [answer] if isinstance(answer, dict) else answer
    if isinstance(features, list) and all(isinstance(feature, dict) for feature in features):
        for feature in features:
            _check_json(feature, "feature", 0)
            if not isinstance(feature.get("type", ""), str):
                text = f"{feature['type']!r:.80}"
                raise ValueError(f"returns a feature whose type is {text}, which is not a string")
        return features
    if isinstance(answer, str):
        return [{"type": "text", "text": answer}]
    try:
        tensor = np.asarray(answer, np.float64) if isinstance(answer, list) else np.asarray(answer)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"returns an answer that is neither features nor numbers: {error}"
        ) from error
    if tensor.dtype.kind not in "biufc":
        name = type(answer).__name__
        raise ValueError(f"returns an answer that is neither features nor numbers: {name}")
    return tensor


def _check_json(value: Any, path: str, depth: int) -> None:
    """Raise ValueError that names the path of a value that is not JSON, and its type."""
    if depth > _MOST_DEPTH:
        raise ValueError(f"returns a feature deeper than {_MOST_DEPTH} levels at {path:.80}")
    if not isinstance(value, dict | list | str | int | float | None):
        name = type(value).__name__
        raise ValueError(f"returns {name} at {path:.80}, which is not valid JSON")
    for item in value if isinstance(value, list) else ():
        _check_json(item, path, depth + 1)
    for key, item in value.items() if isinstance(value, dict) else ():
        if not isinstance(key, str):
            raise ValueError(f"returns a feature whose key is {key!r:.80}, which is not a string")
        _check_json(item, f"{path}.{key}", depth + 1)
