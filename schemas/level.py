"""Trace levels: how deeply a run is traced. A level includes all levels above it."""

from enum import IntEnum
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_PAPER_NAMES = {"": "none", "no": "none", "ml_library": "library", "system_library": "system"}
"""Names of levels in the papers' code, without its suffix `_TRACE`."""


class Level(IntEnum):
    """Depth of a trace, from nothing to everything that the machine can report."""

    NONE = 0
    #: the user's own spans, and the query as a whole
    APPLICATION = 1
    #: every operator of the pipeline: decode, …, predict, …
    MODEL = 2
    #: the framework's layers
    FRAMEWORK = 3
    #: calls into libraries like cuDNN and oneDNN
    LIBRARY = 4
    #: CUDA calls, kernels, copies; operating-system events
    SYSTEM = 5
    #: hardware counters
    HARDWARE = 6
    FULL = 7


def level_of(value: object) -> Level:
    """Return the level of a name or number.

    Accepts the names of the papers and of their code (`SYSTEM_LIBRARY_TRACE`). Raises ValueError,
    which lists the allowed names.
    """
    if isinstance(value, Level):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value in set(Level):
        return Level(value)
    if isinstance(value, str):
        name = value.strip().lower().removesuffix("_trace")
        name = _PAPER_NAMES.get(name, name)
        if name.upper() in Level.__members__:
            return Level[name.upper()]
    allowed = ", ".join(level.name.lower() for level in Level)
    raise ValueError(f"unknown trace level {value!r}; allowed: {allowed}")


LevelField = Annotated[
    Level,
    BeforeValidator(level_of),
    PlainSerializer(lambda level: Level(level).name.lower(), return_type=str),
    WithJsonSchema({"type": "string", "enum": [level.name.lower() for level in Level]}),
]
"""A level in a message, encoded as its name in lower case."""
