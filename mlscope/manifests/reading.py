"""Manifests from YAML text, each fault with its line, its value and the allowed ones.

A manifest in a message may have unknown fields, as every message. In a file that a person wrote, an
unknown field is probably a typing error, so it is a fault here.
"""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Final, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, TypeAdapter

from mlscope.manifests.checking import faults_in
from mlscope.manifests.errors import Fault, ManifestFaulty
from mlscope.manifests.partial import Path, errors_in, is_touched, without_faults
from mlscope.manifests.spelling import close_names
from mlscope.yaml.bounds import READING_ERRORS, check_bounds, loader
from schemas.manifest import Manifest, Step

MOST_BYTES: Final = 1 << 20
_MOST_NODES = 100_000
"""Most nodes of one manifest with its aliases resolved: nested aliases can make billions."""
_MOST_CHARACTERS = 4 << 20
"""Most characters of all words with aliases resolved."""
_MOST_DEPTH = 32
_MOST_FAULTS = 100
"""Unknown fields that are reported at once, each with the known one that it resembles."""
_MOST_VALUE_LENGTH = 80
_UNKNOWN_FIELD = "an unknown field"

_MANIFEST: TypeAdapter[Manifest] = TypeAdapter(Manifest)
_KINDS: Mapping[str, type[BaseModel]] = types.MappingProxyType(
    {model.model_fields["kind"].default: model for model in get_args(get_args(Manifest)[0])}
)

PathFault = tuple[Path, str, str]
"""Where a fault is, the value there, and the allowed ones."""
Check = Callable[[Manifest], Iterator[Fault]]
"""Yields the faults of a manifest that parses; a fault's field is its path with dots."""


def read_manifest_text(
    text: str, file: str, kind: str = "", checks: tuple[Check, ...] = (faults_in,)
) -> Manifest:
    """Return the manifest in the YAML `text`; errors call it `file`.

    `kind` is the default where the text has none; `checks` find the faults of a manifest that
    parses. Raises ManifestFaulty with all faults, not only the first.
    """
    value, lines = _parse_yaml(text, file)
    if not isinstance(value, dict):
        raise ManifestFaulty(file, [Fault("", _abbreviated(value), "a map of fields", 1)])
    value = {"kind": kind, **value} if kind else value
    model = _KINDS.get(str(value.get("kind", "")))
    unknown_fields = _unknown_fields(model, value, ()) if model is not None else ()
    path_faults = [*islice(unknown_fields, _MOST_FAULTS), *_validation_faults(value)]
    manifest, changed = _checkable(value, path_faults)
    for fault in (fault for check in checks if manifest for fault in check(manifest)):
        parts = fault.field.split(".")
        path = tuple(int(part) if part.isdecimal() else part for part in parts)
        if not is_touched(path, changed):
            path_faults.append((path, fault.found, fault.allowed))
    if not path_faults and manifest:
        return manifest
    faults = []
    for path, value_text, allowed in path_faults:
        # The line of the path, or of the longest part of it that the text has.
        parents = (path[:length] for length in range(len(path), -1, -1))
        line = next((lines[parent] for parent in parents if parent in lines), 0)
        faults.append(Fault(".".join(map(str, path)), value_text, allowed, line))
    raise ManifestFaulty(file, sorted(faults, key=lambda fault: fault.line))


def kinds() -> tuple[str, ...]:
    """Return all kinds of manifests."""
    return tuple(_KINDS)


def _parse_yaml(text: str, file: str) -> tuple[Any, dict[Path, int]]:
    """Return the value of a YAML text and the line of each path in it. Raises ManifestFaulty."""
    if len(text) > MOST_BYTES:
        raise ManifestFaulty(file, [Fault("", f"{len(text)} characters", f"up to {MOST_BYTES}")])
    try:
        check_bounds(text, _MOST_DEPTH + 1)
        of_text = loader(text)
        root = of_text.get_single_node()
        if root is None:
            raise ManifestFaulty(file, [Fault("", "nothing", "a map of fields", 1)])
        lines: dict[Path, int] = {}
        for path, node in _nodes(root, file):
            lines.setdefault(path, node.start_mark.line + 1)
        return of_text.construct_document(root), lines
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        problem = " ".join(filter(None, (error.context, error.problem)))
        raise ManifestFaulty(file, [Fault("", problem, "YAML", line)]) from error
    except READING_ERRORS as error:
        problem = " ".join(str(error).split()) or "endless nesting"
        raise ManifestFaulty(file, [Fault("", problem, "YAML")]) from error


def _nodes(root: Any, file: str) -> Iterator[tuple[Path, Any]]:
    """Yield each node with its path. Raises ManifestFaulty for repeated keys and alias bombs."""
    unvisited: list[tuple[Path, Any]] = [((), root)]
    count = characters = 0
    while unvisited:
        path, node = unvisited.pop()
        count += 1
        characters += len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        if count > _MOST_NODES or len(path) > _MOST_DEPTH or characters > _MOST_CHARACTERS:
            most = f"{_MOST_NODES} nodes and {_MOST_CHARACTERS} characters"
            allowed = f"{most} with aliases resolved, {_MOST_DEPTH} deep"
            raise ManifestFaulty(file, [Fault("", "more", allowed, node.start_mark.line + 1)])
        yield path, node
        if isinstance(node, yaml.SequenceNode):
            unvisited += [((*path, index), item) for index, item in enumerate(node.value)]
        first_lines: dict[str, int] = {}
        for key, item in node.value if isinstance(node, yaml.MappingNode) else ():
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                field = ".".join(map(str, path))
                raise ManifestFaulty(file, [Fault(field, "a list or map as key", "a word", line)])
            name = str(key.value)
            if name in first_lines and name != "<<":
                repeated = f"it again, after line {first_lines[name]}"
                field = ".".join(map(str, (*path, name)))
                raise ManifestFaulty(file, [Fault(field, repeated, "each field once", line)])
            first_lines[name] = line
            unvisited.append(((*path, name), item))


def _checkable(
    value: Mapping[str, Any], faults: Sequence[PathFault]
) -> tuple[Manifest | None, frozenset[Path]]:
    """Return the manifest without its faulty parts, and which parts that changes.

    The field that an unknown one resembles counts as changed: it is missing for that reason.
    """
    unknown = [(path, hint) for path, fault, hint in faults if fault == _UNKNOWN_FIELD]
    meant = {(*path[:-1], hint.removesuffix("?")) for path, hint in unknown}
    malformed = [path for path, fault, _ in faults if fault != _UNKNOWN_FIELD]
    manifest, changed = without_faults(value, _MANIFEST.validate_python, malformed)
    return manifest, changed | meant


def _validation_faults(value: Mapping[str, Any]) -> Iterator[PathFault]:
    """Yield the faults that pydantic reports."""
    for path, entry in errors_in(value, _MANIFEST.validate_python):
        message = entry["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        value_text, expected = _abbreviated(entry["input"]), message
        if entry["type"] == "missing":
            value_text, expected = "nothing", "a value"
        if not path and entry["type"].startswith("union_tag"):
            yield ("kind",), _abbreviated(value.get("kind", "nothing")), ", ".join(_KINDS)
        else:
            yield path, value_text, expected


def _unknown_fields(
    model: type[BaseModel], value: Mapping[str, Any], path: Path
) -> Iterator[PathFault]:
    """Yield the fields of a map, and of the maps in it, that its message does not have."""
    fields = {name: field.annotation for name, field in model.model_fields.items()}
    for name, field in model.model_fields.items():
        for alias in getattr(field.validation_alias, "choices", ()):
            fields[str(alias)] = fields[name]
    for name, inner in value.items():
        if name not in fields:
            similar = close_names(str(name), fields, most=1)
            hint = f"{similar[0]}?" if similar else ", ".join(sorted(fields))
            yield (*path, str(name)), _UNKNOWN_FIELD, hint
            continue
        inner_model = _message_in(fields[name])
        if inner_model is None or inner_model is Step:
            continue
        items = enumerate(inner) if isinstance(inner, list) else ()
        maps = {(*path, name): inner} | {(*path, name, index): item for index, item in items}
        for inner_path, item in maps.items():
            if isinstance(item, Mapping):
                yield from _unknown_fields(inner_model, item, inner_path)


def _message_in(annotation: Any) -> type[BaseModel] | None:
    """Return the message inside `tuple[M, ...]`, `M | None` or `M`; None for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, Union, types.UnionType, Annotated):
        messages = (_message_in(argument) for argument in get_args(annotation))
        return next((message for message in messages if message is not None), None)
    return None


def _abbreviated(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_VALUE_LENGTH else f"{text[:_MOST_VALUE_LENGTH]}…"
