"""YAML text to manifests, each fault with its line, what was found and what is allowed. Pure.

A manifest that arrives in a message tolerates unknown fields, as every message does. In a file
somebody wrote, an unknown field is a typing error: it is a fault here.
"""

import difflib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from mlscope.manifests.checking import faults_in
from mlscope.manifests.errors import Fault, ManifestFaulty
from schemas.manifest import Manifest, Step

MOST_BYTES: Final = 1 << 20
_MOST_NODES = 100_000
"""Nodes of one manifest with its aliases spelt out: a few aliases of aliases are billions."""
_MOST_DEPTH = 32
_MOST_FOUND = 80

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MANIFEST: TypeAdapter[Manifest] = TypeAdapter(Manifest)
_KINDS: Mapping[str, type[BaseModel]] = types.MappingProxyType(
    {model.model_fields["kind"].default: model for model in get_args(get_args(Manifest)[0])}
)

Path = tuple[str | int, ...]
Check = Callable[[Manifest], Iterator[Fault]]
"""Yields what is wrong with a manifest that parses; a fault's field is its path with dots."""


def read_manifest_text(
    text: str, file: str, kind: str = "", checks: tuple[Check, ...] = (faults_in,)
) -> Manifest:
    """Return the manifest in a YAML text; `kind` is used where it says none.

    Raises ManifestFaulty with every fault that is found, not only the first.
    """
    value, lines = _document(text, file)
    if not isinstance(value, dict):
        raise ManifestFaulty(file, [Fault("", _shown(value), "a map of fields", 1)])
    value = {"kind": kind, **value} if kind else value
    faults = [*_unknown(value), *_invalid(value)]
    if not faults:
        manifest = _MANIFEST.validate_python(value)
        found = (fault for check in checks for fault in check(manifest))
        faults = [(_path(fault.field), fault.found, fault.allowed) for fault in found]
        if not faults:
            return manifest
    placed = [
        Fault(".".join(map(str, path)), what, allowed, _line_of(path, lines))
        for path, what, allowed in faults
    ]
    raise ManifestFaulty(file, sorted(placed, key=lambda fault: fault.line))


def _path(field: str) -> Path:
    return tuple(int(part) if part.isdecimal() else part for part in field.split("."))


def kinds() -> tuple[str, ...]:
    """Return the kinds of manifests there are."""
    return tuple(_KINDS)


def _document(text: str, file: str) -> tuple[Any, dict[Path, int]]:
    """Return the value of a YAML text and the line of each path in it. Raises ManifestFaulty."""
    if len(text) > MOST_BYTES:
        raise ManifestFaulty(file, [Fault("", f"{len(text)} characters", f"up to {MOST_BYTES}")])
    loader = _LOADER(text)
    try:
        root = loader.get_single_node()
        if root is None:
            raise ManifestFaulty(file, [Fault("", "nothing", "a map of fields", 1)])
        lines: dict[Path, int] = {}
        for path, node in _walk(root, file):
            lines.setdefault(path, node.start_mark.line + 1)
        return loader.construct_document(root), lines
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        problem = " ".join(filter(None, (error.context, error.problem)))
        raise ManifestFaulty(file, [Fault("", problem, "YAML", line)]) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split()) or "nesting without end"
        raise ManifestFaulty(file, [Fault("", problem, "YAML")]) from error
    finally:
        loader.dispose()


def _walk(root: Any, file: str) -> Iterator[tuple[Path, Any]]:
    """Yield each node with its path. Raises ManifestFaulty for repeated keys and alias bombs."""
    waiting: list[tuple[Path, Any]] = [((), root)]
    count = 0
    while waiting:
        path, node = waiting.pop()
        count += 1
        if count > _MOST_NODES or len(path) > _MOST_DEPTH:
            allowed = f"{_MOST_NODES} nodes with aliases spelt out, {_MOST_DEPTH} deep"
            raise ManifestFaulty(file, [Fault("", "more", allowed, node.start_mark.line + 1)])
        yield path, node
        if isinstance(node, yaml.SequenceNode):
            waiting += [((*path, n), each) for n, each in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            _check_keys(path, node, file)
            waiting += [((*path, str(key.value)), each) for key, each in node.value]


def _check_keys(path: Path, node: yaml.MappingNode, file: str) -> None:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line, name = key.start_mark.line + 1, str(key.value)
        if name in seen and name != "<<":
            field = ".".join(map(str, (*path, name)))
            raise ManifestFaulty(
                file, [Fault(field, f"it again, after line {seen[name]}", "each field once", line)]
            )
        seen[name] = line


def _invalid(value: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    try:
        _MANIFEST.validate_python(value)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            path = list(each["loc"][1:])
            if not path and each["type"].startswith("union_tag"):
                path, allowed = ["kind"], ", ".join(_KINDS)
                yield tuple(path), _shown(value.get("kind", "nothing")), allowed
                continue
            missing = each["type"] == "missing"
            found = "nothing" if missing else _shown(each["input"])
            yield tuple(path), found, "a value" if missing else _allowed(each["msg"])


def _allowed(message: str) -> str:
    """Turn pydantic's message into what is allowed."""
    for start in ("Input should be ", "Value error, "):
        message = message.removeprefix(start)
    return message


def _unknown(value: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    model = _KINDS.get(str(value.get("kind", "")))
    if model is not None:
        yield from _unknown_in(model, value, ())


def _unknown_in(
    model: type[BaseModel], value: Mapping[str, Any], path: Path
) -> Iterator[tuple[Path, str, str]]:
    fields = {name: each.annotation for name, each in model.model_fields.items()}
    for name, each in model.model_fields.items():
        for alias in getattr(each.validation_alias, "choices", ()):
            fields[str(alias)] = fields[name]
    for name, below in value.items():
        if name not in fields:
            near = difflib.get_close_matches(str(name), fields, 1)
            hint = f"{near[0]}?" if near else ", ".join(sorted(fields))
            yield (*path, str(name)), "an unknown field", hint
        else:
            yield from _unknown_below(fields[name], below, (*path, name))


def _unknown_below(annotation: Any, value: Any, path: Path) -> Iterator[tuple[Path, str, str]]:
    model = _model_in(annotation)
    if model is None or model is Step:
        return
    if isinstance(value, Mapping):
        yield from _unknown_in(model, value, path)
    elif isinstance(value, list):
        for n, each in enumerate(value):
            if isinstance(each, Mapping):
                yield from _unknown_in(model, each, (*path, n))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the message inside `tuple[M, ...]`, `M | None` or `M`; None for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, Union, types.UnionType, Annotated):
        found = (_model_in(each) for each in get_args(annotation))
        return next((each for each in found if each is not None), None)
    return None


def _line_of(path: Path, lines: Mapping[Path, int]) -> int:
    """Return the line of a path, or of the longest part of it that the text has."""
    for length in range(len(path), -1, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 0


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_FOUND else f"{text[:_MOST_FOUND]}…"
