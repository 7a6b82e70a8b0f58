"""Inline Python of manifests as operators: `def fun(env, data)`, in a process that only computes.

Code before the model takes one sample as the dataset has it (bytes, an array, for several inputs
a map) and gives the input's tensor without batch dimension, or for several inputs a map by layer
name or a list in the manifest's order. Code behind it takes the outputs of one batch (an array,
or a map by name) and gives one answer a sample: a list of features, or an array. The `before_`
and `after_` functions around it may change the data, or give nothing. The codes of a side share
their names and one `env`, which tells model, framework, device, options, batch size, inputs and
outputs, and has the manifest's further files as bytes in `assets`: code can open none itself. Code
behind the model that has the text `samples` finds those of its batch in `env["samples"]`, as the
dataset has them, None in the places of bad ones: sizes of pictures, contexts of questions.
"""

import ast
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from schemas.manifest import PLACEHOLDERS, ModelManifest, Port
from schemas.operators import step_faults
from schemas.plan import Subject
from services.agent.allowances import InlineLimits
from services.agent.errors import CodeFailed, CodeRefused
from services.agent.inline_process import InlineProcess
from services.agent.inline_wire import SAMPLES
from services.agent.pipeline import CODE_BEFORE, CODE_BEHIND
from services.agent.steps import Operator

_MOST_DEPTH = 64


def codes_of(model: ModelManifest, names: Sequence[str]) -> dict[str, str]:
    """Return a side's codes by name, in their order. Raises CodeFailed for a placeholder."""
    found = {name: str(getattr(model, name)) for name in names}
    for name, text in found.items():
        if text.strip() in PLACEHOLDERS:
            raise CodeFailed(name, f"{text.strip()} stands for code that the manifest leaves out")
    return {name: text for name, text in found.items() if text.strip()}


def check_code(model: ModelManifest, limits: InlineLimits | None) -> None:
    """Refuse what can't be run here before anything is opened for it.

    Raises CodeFailed for a placeholder, and for code beside steps; CodeRefused where `limits` is
    None and the model has code.
    """
    has_code = bool(codes_of(model, CODE_BEFORE) or codes_of(model, CODE_BEHIND))
    if not has_code:
        return
    if limits is None:
        raise CodeRefused(model.name)
    for fault in step_faults(model):
        raise CodeFailed(fault.path, f"found {fault.found}, allowed: {fault.allowed}")


@dataclass(frozen=True, slots=True)
class Inline:
    """A model's code, ready: operators for a whole sample and for a whole batch."""

    before: tuple[Operator, ...] = ()
    behind: tuple[Operator, ...] = ()
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
) -> Inline:
    """Start what a model's code runs in; `supplied` names the inputs that samples fill.

    `further` returns the model's further files. Raises CodeRefused where `limits` is None, and
    CodeFailed.
    """
    model = subject.model
    before, behind = codes_of(model, CODE_BEFORE), codes_of(model, CODE_BEHIND)
    if not before and not behind:
        return Inline()
    if limits is None:
        raise CodeRefused(model.name)
    env = env_of(subject, batch_size) | {"assets": dict(further())}
    processes: list[InlineProcess] = []
    with contextlib.ExitStack() as undo:
        for codes in filter(None, (before, behind)):
            process = InlineProcess(codes, env, limits)
            undo.callback(process.close)
            process.start()
            processes.append(process)
        undo.pop_all()
    last_before, last_behind = partial(_inputs, supplied), partial(_answers, batch_size)
    return Inline(
        _operators(processes[0], before, last_before, is_behind=False) if before else (),
        _operators(processes[-1], behind, last_behind, is_behind=True) if behind else (),
        tuple(processes),
    )


def env_of(subject: Subject, batch_size: int) -> dict[str, Any]:
    """Return what code is told of the request and the model."""
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
        "inputs": [_told(port) for port in model.inputs],
        "outputs": [_told(port) for port in model.outputs],
        "attributes": model.model_dump(mode="json", include={"attributes"})["attributes"],
    }


def _told(port: Port) -> dict[str, Any]:
    told = port.model_dump(mode="json", include={"type", "layer_name", "shape", "description"})
    return {**told, "element_type": port.element_type}


class _Call:
    """One function of a side; data stay in its process between the first and the last."""

    def __init__(self, process: InlineProcess, name: str, finish: Any, *, first: bool) -> None:
        self._process, self._name, self._finish = process, name, finish
        self._is_first = first

    def __call__(self, value: Any, *samples: Any) -> Any:
        given = (value, *samples) if self._is_first else ()
        made = self._process.call(self._name, given, wants_answer=self._finish is not None)
        return made if self._finish is None else self._finish(made)


def _operators(
    process: InlineProcess, codes: Mapping[str, str], finish: Any, *, is_behind: bool
) -> tuple[Operator, ...]:
    """Return a side's functions; code behind that has the text `samples` gets those, too."""
    *_, last = codes
    wants_samples = is_behind and any(map(_asks_for_samples, codes.values()))
    return tuple(
        Operator(
            name,
            _Call(process, name, finish if name == last else None, first=number == 0),
            wants_samples=wants_samples and number == 0,
        )
        for number, name in enumerate(codes)
    )


def _asks_for_samples(code: str) -> bool:
    """Tell whether code has the text `samples`: sending a batch is dear where nobody reads it."""
    try:
        parsed = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # said when it is run
    return any(
        isinstance(each, ast.Constant) and each.value == SAMPLES for each in ast.walk(parsed)
    )


def _inputs(supplied: Sequence[str], made: Any) -> Any:
    """Return the inputs as the pipeline takes them. Raises ValueError."""
    if len(supplied) == 1:
        return made[supplied[0]] if isinstance(made, dict) and supplied[0] in made else made
    if isinstance(made, dict):
        return made
    if not isinstance(made, list) or len(made) != len(supplied):
        raise ValueError(f"gives no map or list of the inputs {', '.join(supplied)}")
    return dict(zip(supplied, made, strict=True))


def _answers(batch_size: int, made: Any) -> Sequence[Any]:
    """Return a batch's answers, one a sample: features, or a tensor. Raises ValueError."""
    if not isinstance(made, np.ndarray | list) or len(made) != batch_size:
        found = f"{len(made)} answers" if isinstance(made, np.ndarray | list) else "no list"
        raise ValueError(f"gives {found}, a batch has {batch_size}")
    return list(made) if isinstance(made, np.ndarray) else [_features(each) for each in made]


def _features(answer: Any) -> Any:
    if isinstance(answer, dict):
        return [_feature(answer)]
    if isinstance(answer, list) and all(isinstance(each, dict) for each in answer):
        return [_feature(each) for each in answer]
    if isinstance(answer, str):
        return [{"type": "text", "text": answer}]
    try:
        made = np.asarray(answer, np.float64) if isinstance(answer, list) else np.asarray(answer)
    except (TypeError, ValueError) as error:
        raise ValueError(f"gives an answer of neither features nor numbers: {error}") from error
    if made.dtype.kind not in "biufc":
        name = type(answer).__name__
        raise ValueError(f"gives an answer of neither features nor numbers: {name}")
    return made


def _feature(feature: dict[Any, Any]) -> dict[str, Any]:
    """Return a feature that can be kept: a JSON object. Raises ValueError."""
    _check_json(feature, "feature", 0)
    if not isinstance(feature.get("type", ""), str):
        raise ValueError(f"gives a feature whose type is {feature['type']!r:.80}, and no text")
    return feature


def _check_json(value: Any, place: str, depth: int) -> None:
    """Raise ValueError that names where a value is no JSON, and what it is."""
    if depth > _MOST_DEPTH:
        raise ValueError(f"gives a feature deeper than {_MOST_DEPTH} levels at {place:.80}")
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise ValueError(f"gives a feature whose key is {key!r:.80}, and no text")
            _check_json(each, f"{place}.{key}", depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check_json(each, place, depth + 1)
    elif value is not None and not isinstance(value, str | int | float):
        name = type(value).__name__
        raise ValueError(f"gives {name} at {place:.80}, JSON has numbers, texts, lists and maps")
