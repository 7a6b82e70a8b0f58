"""One fixed sample of every message, and the golden files made of them.

A golden file is never rewritten: it is a message of the past that must stay readable.
`python -m tests.schemas.samples` adds those that are missing.
"""

import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import StringConstraints

from schemas.encoding.codec import encode, encode_body
from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.level import Level
from schemas.manifest import Port
from schemas.message import Envelope, Message
from schemas.request import Evaluate

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "messages"
_PLAIN: dict[Any, Any] = {
    int: 7,
    float: 0.5,
    bool: True,
    Any: {"threads": [1, 2]},
    Level: Level.MODEL,
}


def sample(kind: type[Message]) -> Any:
    """Return a message whose every field is set."""
    values = {
        name: _value(name, field.annotation, tuple(field.metadata))
        for name, field in kind.model_fields.items()
    }
    if issubclass(kind, Evaluate):
        values |= {"batch_sizes": (1, 8)}
    if issubclass(kind, Port):
        values |= {"range": (0, 7)}
    return kind(**values)


def _value(name: str, annotation: Any, bounds: tuple[Any, ...] = ()) -> Any:
    if hasattr(annotation, "__metadata__"):
        return _value(name, annotation.__origin__, (*annotation.__metadata__, *bounds))
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _value(name, inner[0])
    if origin is Literal:
        return inner[0]
    if origin is tuple:
        return tuple(_value(name, part) for part in inner if part is not Ellipsis)
    if origin is dict:
        return {"key": _value(name, inner[1])}
    if isinstance(annotation, type) and issubclass(annotation, Message):
        return sample(annotation)
    if annotation is str:
        is_token = any(isinstance(bound, StringConstraints) for bound in bounds)
        return f"{name}-1" if is_token else f"{name} ünï"
    return bytes(range(8)) if annotation is bytes else _PLAIN[annotation]


def golden_bodies() -> dict[str, bytes]:
    """Return a body a message, by file name."""
    bodies = {f"{verb}.msgpack": encode_body(sample(kind)) for verb, kind in COMMANDS.items()}
    for name, kind in FACTS.items():
        envelope = Envelope.around(sample(kind), id="a" * 32, cause="b" * 32, time_ns=10**18)
        bodies[f"{name}.msgpack"] = encode(envelope)
    return bodies


def main() -> None:
    """Write the golden files that are not there yet."""
    for name, body in golden_bodies().items():
        if not (FOLDER / name).exists():
            (FOLDER / name).write_bytes(body)


if __name__ == "__main__":
    main()
