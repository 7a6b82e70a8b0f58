"""Reading a step's parameters: each read checks one and names it when it is wrong."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from services.agent.errors import BadParameter, PackageMissing

LabelReader = Callable[[str], tuple[str, ...]]
"""Returns the lines of a label file named by the manifest. Raises AssetError."""

_MISSING = object()


class Parameters:
    """The parameters of one step; what nobody read by `done` is unknown."""

    def __init__(
        self, operator: str, values: Mapping[str, Any], labels: LabelReader | None = None
    ) -> None:
        self.operator = operator
        self._left = dict(values)
        self._known: list[str] = []
        self._labels = labels
        self._label_file = ""
        #: the outputs that the step reads beside its own, in the order asked for
        self.outputs: tuple[str, ...] = ()
        #: whether the step behind the model takes the samples of its batch, too
        self.wants_samples = False

    def done(self) -> None:
        """Raise BadParameter when a parameter is left that the step does not know."""
        if self._left:
            name, value = next(iter(self._left.items()))
            raise BadParameter(self.operator, name, value, f"one of {', '.join(self._known)}")

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """Return one of `allowed`, in any case."""
        value = self._take(name, default)
        for each in allowed:
            if str(value).lower() == each.lower():
                return each
        raise self._wrong(name, value, f"one of {', '.join(allowed)}")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def whole(self, name: str, *, default: int, least: int = 1) -> int:
        """Return a whole number of at least `least`."""
        value = self._take(name, default)
        if not _is_whole(value) or value < least:
            raise self._wrong(name, value, f"a whole number from {least}")
        return int(value)

    def fraction(self, name: str) -> float | None:
        """Return a number above 0 and up to 1, or None when absent."""
        value = self._take(name, None)
        if value is None:
            return None
        if not _is_number(value) or not 0 < value <= 1:
            raise self._wrong(name, value, "a number above 0, up to 1")
        return float(value)

    def per_channel(self, names: Sequence[str], *, default: float) -> tuple[float, ...]:
        """Return one number or one a channel, under the first of `names` that is there."""
        name = next((each for each in names if each in self._left), names[0])
        value = self._take(name, default)
        numbers = value if isinstance(value, list | tuple) else [value]
        if len(numbers) not in (1, 3) or not all(_is_number(each) for each in numbers):
            raise self._wrong(name, value, "a number, or three (one a channel)")
        return tuple(float(each) for each in numbers)

    def size(self, name: str = "dimensions", *, required: bool = True) -> tuple[int, int] | None:
        """Return (height, width) from one number, [height, width] or [channels, height, width]."""
        value = self._take(name, None)
        if value is None and not required:
            return None
        numbers = value if isinstance(value, list | tuple) else [value, value]
        if len(numbers) not in (2, 3) or not all(_is_whole(n) and n >= 1 for n in numbers):
            raise self._wrong(name, value, "[height, width] or [channels, height, width]")
        return int(numbers[-2]), int(numbers[-1])

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the lines of the label file named under the first of `names` that is there."""
        name = next((each for each in names if each in self._left), names[0])
        value = self._take(name, None)
        if value is None:
            return ()
        if not isinstance(value, str) or self._labels is None:
            raise self._wrong(name, value, "the name of a label file")
        self._label_file = value
        return self._labels(value)

    def class_names(self, names: Sequence[str]) -> "ClassNames":
        """Return the label file named under the first of `names` that is there, or none."""
        lines = self.labels(names)
        return ClassNames(self._label_file, lines)

    def number(self, name: str, *, default: float, least: float = -math.inf) -> float:
        """Return a number of at least `least`."""
        value = self._take(name, default)
        if not _is_number(value) or not value >= least:
            raise self._wrong(name, value, f"a number from {least:g}")
        return float(value)

    def letters(self, name: str, default: str) -> str:
        """Return a short text."""
        value = self._take(name, default)
        if not isinstance(value, str) or not value:
            raise self._wrong(name, value, "letters")
        return value

    def output(self, name: str) -> str:
        """Return the layer name of another output that the step reads, '' when absent."""
        value = self._take(name, "")
        if not isinstance(value, str):
            raise self._wrong(name, value, "an output's layer_name")
        if value:
            self.outputs += (value,)
        return value

    def want_samples(self) -> None:
        """Say that the step takes the samples of the batch, as they were read, at last."""
        self.wants_samples = True

    def _take(self, name: str, default: object) -> Any:
        self._known.append(name)
        value = self._left.pop(name, _MISSING)
        return default if value is _MISSING else value

    def _wrong(self, name: str, found: object, expected: str) -> BadParameter:
        return BadParameter(self.operator, name, found, expected)


@dataclass(frozen=True, slots=True)
class ClassNames:
    """The lines of a label file, one a class; without a file every class is called ''."""

    file: str
    lines: tuple[str, ...]

    def require(self, classes: int) -> None:
        """Raise ValueError unless there is one line a class: else names shift unseen."""
        if self.file and len(self.lines) != classes:
            raise ValueError(
                f"label file {self.file} has {len(self.lines)} labels,"
                f" the model's output has {classes} classes"
            )

    def require_class(self, index: int) -> None:
        """Raise ValueError unless a class that was answered has a line."""
        if self.file and not 0 <= index < len(self.lines):
            raise ValueError(
                f"label file {self.file} has {len(self.lines)} labels,"
                f" the model's output has class {index}"
            )

    def of(self, index: int) -> str:
        """Return the name of a class."""
        return self.lines[index] if self.file else ""


def require_pillow(operator: str) -> None:
    """Raise PackageMissing where Pillow is not installed: at open, not in the middle of a run."""
    try:
        import_module("PIL.Image")
    except ImportError as error:
        raise PackageMissing(f"step {operator}", f"{error}; install Pillow") from error


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
