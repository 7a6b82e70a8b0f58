"""What a model's manifest may have wrong about its inputs, outputs and inline code. Pure."""

import ast
from collections.abc import Iterator
from difflib import get_close_matches

from mlscope.manifests.errors import Fault
from schemas.manifest import CODE_FIELDS, PLACEHOLDERS, ModelManifest, Port
from schemas.operators import OTHER_OUTPUTS

ELEMENT_TYPES = (
    *("float16", "bfloat16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "string"),
)
_NEAR = 0.8
"""How alike (difflib) a name must be to one that is known to be called misspelt."""
_FIRST = ("decode", "audio_decode", "tokenize", "bytes", "constant")
"""Steps that read a file's bytes, or nothing: nothing comes before them."""


def port_faults(model: ModelManifest) -> Iterator[Fault]:
    """Yield what no model has: no inputs, twins, odd types and shapes, steps in a wrong place."""
    if not model.inputs:
        yield Fault("inputs", "none", "one or more")
    for side, ports in (("inputs", model.inputs), ("outputs", model.outputs)):
        seen: set[str] = set()
        for number, port in enumerate(ports):
            if port.layer_name in seen:
                field = f"{side}.{number}.layer_name"
                yield Fault(field, repr(port.layer_name), "another name than those before it")
            seen |= {port.layer_name} - {""}
            yield from _in_port(f"{side}.{number}", port)
    for number, port in enumerate(model.inputs):
        yield from _late(f"inputs.{number}", port)
    for number, port in enumerate(model.outputs):
        yield from _unknown(f"outputs.{number}", port, model)


def code_faults(model: ModelManifest) -> Iterator[Fault]:
    """Yield inline code that does not parse, or has no function to call."""
    for field in CODE_FIELDS:
        text = getattr(model, field)
        if not text or text.strip() in PLACEHOLDERS:
            continue
        try:
            parsed = ast.parse(text, f"<{field}>")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            yield Fault(field, str(error) or type(error).__name__, "Python: def fun(env, data)")
            continue
        if not {"fun", field} & {name for node in ast.walk(parsed) for name in _names(node)}:
            yield Fault(field, "no function of that name", "def fun(env, data)")


def _in_port(place: str, port: Port) -> Iterator[Fault]:
    if port.element_type not in ELEMENT_TYPES:
        yield Fault(f"{place}.element_type", repr(port.element_type), ", ".join(ELEMENT_TYPES))
    if any(size == 0 or size < -1 for size in port.shape):
        yield Fault(f"{place}.shape", repr(list(port.shape)), "sizes from 1, or -1 for any")


def _late(place: str, port: Port) -> Iterator[Fault]:
    for number, step in enumerate(port.steps[1:], start=1):
        if step.operator in _FIRST:
            found = f"{step.operator} after {port.steps[number - 1].operator}"
            yield Fault(f"{place}.steps.{number}", found, f"{step.operator} as the first step")


def _unknown(place: str, port: Port, model: ModelManifest) -> Iterator[Fault]:
    """Yield a misspelt output; a model may have more of them than its manifest describes."""
    known = [each.layer_name for each in model.outputs if each.layer_name]
    for number, step in enumerate(port.steps):
        for parameter in OTHER_OUTPUTS:
            name = step.parameters.get(parameter)
            if not isinstance(name, str) or name in known:
                continue
            if get_close_matches(name, known, n=1, cutoff=_NEAR):
                field = f"{place}.steps.{number}.{step.operator}.{parameter}"
                yield Fault(field, repr(name), f"an output's layer_name: {', '.join(known)}")


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Assign):
        yield from (each.id for each in node.targets if isinstance(each, ast.Name))
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (each.asname or each.name for each in node.names)
