"""Faults of a model's inputs, outputs and inline code. Pure."""

import ast
from collections.abc import Iterator
from itertools import islice, product

from mlscope.manifests.errors import Fault
from mlscope.manifests.spelling import close_names
from schemas.manifest import CODE_FIELDS, PLACEHOLDERS, ModelManifest, Port
from schemas.manifest.operators import OTHER_OUTPUTS, steps_of

ELEMENT_TYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "string",
)
_MISSPELT_SIMILARITY = 0.8
"""Similarity (difflib) to an output's name from which another name counts as misspelt."""
_MOST_SPELT = 20
"""Names in steps that are no output's; of further ones the spelling is not checked."""
_MOST_OUTPUTS_COMPARED = 100
_FIRST_STEPS = ("decode", "audio_decode", "tokenize", "bytes", "constant")
"""Steps that read a file's bytes, or nothing: no step comes before them."""


def port_faults(model: ModelManifest) -> Iterator[Fault]:
    """Yield missing inputs, repeated names, unknown types, wrong shapes and misplaced steps."""
    if not model.inputs:
        yield Fault("inputs", "none", "one or more")
    for side, ports in (("inputs", model.inputs), ("outputs", model.outputs)):
        names: set[str] = set()
        for number, port in enumerate(ports):
            field = f"{side}.{number}"
            if port.layer_name in names:
                allowed = "a name that no earlier one has"
                yield Fault(f"{field}.layer_name", repr(port.layer_name), allowed)
            names |= {port.layer_name} - {""}
            if port.element_type not in ELEMENT_TYPES:
                allowed = ", ".join(ELEMENT_TYPES)
                yield Fault(f"{field}.element_type", repr(port.element_type), allowed)
            if any(size == 0 or size < -1 for size in port.shape):
                yield Fault(f"{field}.shape", repr(list(port.shape)), "sizes from 1, or -1 for any")
            yield from _range_faults(port, field)
    for number, port in enumerate(model.inputs):
        for position, step in enumerate(port.steps[1:], start=1):
            if step.operator in _FIRST_STEPS:
                order = f"{step.operator} after {port.steps[position - 1].operator}"
                field, allowed = f"inputs.{number}.steps.{position}", "as the first step"
                yield Fault(field, order, f"{step.operator} {allowed}")
    yield from _misspelt_output_faults(model)


def _range_faults(port: Port, field: str) -> Iterator[Fault]:
    """Yield a range without integers, of an output, or of numbers that are no integers."""
    if port.range is None:
        return
    if port.range[0] >= port.range[1]:
        yield Fault(f"{field}.range", repr(list(port.range)), "two integers, the lower one first")
    if not field.startswith("inputs"):
        yield Fault(f"{field}.range", "a range", "none: only inputs have one")
    elif port.says_element_type and "int" not in port.element_type:
        yield Fault(f"{field}.range", f"a range of {port.element_type}", "one of integers")


def code_faults(model: ModelManifest) -> Iterator[Fault]:
    """Yield inline code that does not parse, or has no function to call."""
    for field in CODE_FIELDS:
        text = getattr(model, field)
        if not text or text.strip() in PLACEHOLDERS:
            continue
        try:
            tree = ast.parse(text, f"<{field}>")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            yield Fault(field, str(error) or type(error).__name__, "Python: def fun(env, data)")
            continue
        if not {"fun", field} & {name for node in ast.walk(tree) for name in _bound_names(node)}:
            yield Fault(field, "no function of that name", "def fun(env, data)")


def _misspelt_output_faults(model: ModelManifest) -> Iterator[Fault]:
    """Yield each misspelt output that a step names.

    Other names are allowed: a model may have more outputs than its manifest describes.
    """
    outputs = {output.layer_name: None for output in model.outputs if output.layer_name}
    compared = [*islice(outputs, _MOST_OUTPUTS_COMPARED)]
    others = (
        (f"{path}.{step.operator}.{parameter}", name)
        for (path, step), parameter in product(steps_of(model), OTHER_OUTPUTS)
        if not path.startswith("inputs")
        and isinstance(name := step.parameters.get(parameter), str)
        and name not in outputs
    )
    for field, name in islice(others, _MOST_SPELT):
        if close_names(name, compared, most=1, cutoff=_MISSPELT_SIMILARITY):
            yield Fault(field, repr(name), f"an output's layer_name: {', '.join(outputs)}")


def is_constant(port: Port) -> bool:
    """Return whether an input has the same value for every sample: its first step is `constant`."""
    return bool(port.steps) and port.steps[0].operator == "constant"


def _bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds: functions, classes, variables and imports."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name for alias in aliases)
