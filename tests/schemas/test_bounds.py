"""Every value of a command has a bound, so that checking a command takes little."""

import types
from collections.abc import Iterator
from itertools import chain
from typing import Any, Union, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen
from pydantic import BaseModel, StringConstraints
from pydantic.fields import FieldInfo

from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.encoding.message_index import COMMANDS
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    HardwareManifest,
    ModelManifest,
    ScenarioManifest,
    SoftwareManifest,
)
from schemas.message import Command
from schemas.request import Evaluate, ListEvaluations
from tests.schemas.test_request import wrong_field

_MANIFESTS = (
    ModelManifest,
    FrameworkManifest,
    DatasetManifest,
    ScenarioManifest,
    HardwareManifest,
    SoftwareManifest,
)
"""Not looked into: a dataset may have any number of samples, and what is stored stays readable.
MLSCOPE_MAX_REQUEST_BYTES bounds them as a whole."""

_BOUNDED_ELSEWHERE = {
    "batch_sizes.*": "a validator names the bounds, 1 to 65536, and the field as a whole",
}

_MANY: dict[str, Any] = {str(number): {} for number in range(1001)}


def unbounded(kind: type[BaseModel], path: str = "") -> Iterator[str]:
    """Yield the path of each list, map, text or integer in a message that has no bound."""
    for name, field in kind.model_fields.items():
        yield from _in_type(field.annotation, (field,), f"{path}{name}")


def _in_type(annotation: Any, notes: tuple[Any, ...], path: str) -> Iterator[str]:
    while hasattr(annotation, "__metadata__"):
        annotation, notes = annotation.__origin__, (*notes, *annotation.__metadata__)
    bounds = tuple(
        chain.from_iterable(
            note.metadata if isinstance(note, FieldInfo) else (note,) for note in notes
        )
    )
    origin, inner = get_origin(annotation), get_args(annotation)
    is_sized = annotation is str or origin in (tuple, list, dict)
    if is_sized and not _has_longest(bounds):
        yield path
    if annotation is int and not _has_range(bounds):
        yield path
    if origin is dict and inner[1] is Any:
        # Free-form values: MLSCOPE_MAX_REQUEST_BYTES and MAX_DEPTH bound what is in them.
        return
    if origin in (Union, types.UnionType):
        for branch in inner:
            yield from _in_type(branch, (), path)
    elif origin in (tuple, list, dict):
        for part in inner:
            yield from _in_type(part, (), f"{path}.*")
    elif annotation in _MANIFESTS:
        return
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from unbounded(annotation, f"{path}.")


def _has_longest(bounds: tuple[Any, ...]) -> bool:
    return any(
        isinstance(bound, MaxLen)
        or (isinstance(bound, StringConstraints) and bool(bound.max_length or bound.pattern))
        for bound in bounds
    )


def _has_range(bounds: tuple[Any, ...]) -> bool:
    has_least = any(isinstance(bound, Ge | Gt) for bound in bounds)
    return has_least and any(isinstance(bound, Le | Lt) for bound in bounds)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_list_map_text_and_integer_of_a_command_has_a_bound(command: type[Command]) -> None:
    assert [path for path in unbounded(command) if path not in _BOUNDED_ELSEWHERE] == []


@pytest.mark.parametrize(
    ("fields", "field", "expected"),
    [
        ({"agents": ["a"] * 5000}, "agents", "at most 4096 entries; leave some out"),
        ({"model": "m" * 600}, "model", "at most 512 characters"),
        ({"framework": "f:" + "1" * 600}, "framework.version", "at most 512 characters"),
        ({"scenarios": ["online"] * 65}, "scenarios", "at most 64 entries; leave some out"),
        ({"levels": ["model"] * 9}, "levels", "at most 8 entries; leave some out"),
        (
            {"labels": dict.fromkeys(_MANY, "")},
            "labels",
            "at most 1000 entries; leave some out",
        ),
        ({"options": _MANY}, "options", "at most 1000 entries; leave some out"),
        ({"collectors": _MANY}, "collectors", "at most 1000 entries; leave some out"),
    ],
)
def test_a_value_beyond_its_bound_is_refused_by_field_and_fix(
    fields: dict[str, Any], field: str, expected: str
) -> None:
    with pytest.raises(MalformedMessage) as raised:
        parse(Evaluate, {"model": "m", **fields})
    assert (raised.value.field, raised.value.expected) == (field, expected)


def test_what_a_manifest_says_of_its_frameworks_has_the_same_bounds() -> None:
    """Else the need that is made of it would have none."""
    long = {"name": "onnxruntime", "version": "1" * 600}
    manifest = {"name": "m", "version": "1", "inputs": [], "outputs": [], "framework": "jax"}
    field = wrong_field(Evaluate, model={**manifest, "frameworks": [long]})
    assert field == "model.frameworks.0.version"


@pytest.mark.parametrize("offset", [-1, 2**31, "9" * 23])
def test_a_list_goes_on_within_bounds(offset: object) -> None:
    assert wrong_field(ListEvaluations, offset=offset) == "offset"
