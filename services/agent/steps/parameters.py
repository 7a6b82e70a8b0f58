"""Read and check the parameters of a step."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from services.agent.errors import BadParameter, PackageMissing
from services.agent.steps.forms import NO_FORMS, Forms

LabelReader = Callable[[str], tuple[str, ...]]
"""Returns the lines of a label file that the manifest names. Raises FileUnusable."""

_MISSING = object()


class Parameters:
    """The parameters of one step, each read and checked by a method. These raise BadParameter.

    Each method takes the `name` of a parameter, or several `names` of which the first present one
    is read, and the `default` for an absent one. Every parameter must be read before
    `refuse_unread`.
    """

    def __init__(
        self, operator: str, values: Mapping[str, Any], labels: LabelReader | None = None
    ) -> None:
        """Take the `values` by name of a step's `operator`; `labels` reads label files."""
        self.operator = operator
        self._unread = dict(values)
        self.read_names: list[str] = []
        self._labels = labels
        self._label_file = ""
        #: other outputs of the model that the step takes after its own, in order
        self.outputs: tuple[str, ...] = ()
        #: whether the step, which is behind the model, also takes the samples of its batch
        self.wants_samples = False
        #: further forms of the step's function
        self.forms: Forms = NO_FORMS
        #: what a reader must know of the step's results
        self.notes: tuple[str, ...] = ()
        #: the library that does the step's work on pictures, with its version
        self.library = ""

    def refuse_unread(self) -> None:
        """Raise BadParameter for a parameter that no method has read, as the step has none such."""
        if self._unread:
            name, value = next(iter(self._unread.items()))
            raise BadParameter(self.operator, name, value, f"one of {', '.join(self.read_names)}")

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """Return one of the `allowed` values of the parameter `name`, or the `default` without it.

        Upper and lower case are the same.
        """
        value = self._read(name, default)
        for option in allowed:
            if str(value).lower() == option.lower():
                return option
        raise self._error(name, value, f"one of {', '.join(allowed)}")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._read(name, default)
        if not isinstance(value, bool):
            raise self._error(name, value, "true or false")
        return value

    def integer(self, name: str, *, default: int, minimum: int = 1) -> int:
        """Return the whole number `name`, of at least `minimum`; the `default` without it."""
        value = self._read(name, default)
        if not _is_integer(value) or value < minimum:
            raise self._error(name, value, f"a whole number from {minimum}")
        return int(value)

    def fraction(self, name: str) -> float | None:
        """Return a number above 0 and up to 1; None when absent."""
        value = self._read(name, None)
        if value is None:
            return None
        if not _is_number(value) or not 0 < value <= 1:
            raise self._error(name, value, "a number above 0, up to 1")
        return float(value)

    def per_channel(self, names: Sequence[str], *, default: float) -> tuple[float, ...]:
        """Return one number, or three: one for each channel."""
        name = self._present(names)
        value = self._read(name, default)
        numbers = value if isinstance(value, list | tuple) else [value]
        if len(numbers) not in (1, 3) or not all(_is_number(number) for number in numbers):
            raise self._error(name, value, "one number, or three (one for each channel)")
        return tuple(float(number) for number in numbers)

    def size(self, name: str = "dimensions", *, required: bool = True) -> tuple[int, int] | None:
        """Return (height, width) from one number, [height, width] or [channels, height, width].

        None when it is absent and not `required`.
        """
        value = self._read(name, None)
        if value is None and not required:
            return None
        numbers = value if isinstance(value, list | tuple) else [value, value]
        if len(numbers) not in (2, 3) or not all(_is_integer(n) and n >= 1 for n in numbers):
            raise self._error(name, value, "[height, width] or [channels, height, width]")
        return int(numbers[-2]), int(numbers[-1])

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the lines of the label file that the parameter names; () when absent."""
        name = self._present(names)
        value = self._read(name, None)
        if value is None:
            return ()
        if not isinstance(value, str) or self._labels is None:
            raise self._error(name, value, "the name of a label file")
        self._label_file = value
        return self._labels(value)

    def class_names(self, names: Sequence[str]) -> "ClassNames":
        """Return the names of classes from the label file that the parameter names, if any."""
        lines = self.labels(names)
        return ClassNames(self._label_file, lines)

    def number(self, name: str, *, default: float, minimum: float = -math.inf) -> float:
        """Return the number `name`, of at least `minimum`; the `default` without it."""
        value = self._read(name, default)
        if not _is_number(value) or not value >= minimum:
            expected = "a number" if minimum == -math.inf else f"a number from {minimum:g}"
            raise self._error(name, value, expected)
        return float(value)

    def text(self, name: str, default: str) -> str:
        """Return a non-empty string."""
        value = self._read(name, default)
        if not isinstance(value, str) or not value:
            raise self._error(name, value, "a non-empty string")
        return value

    def output(self, name: str) -> str:
        """Return the layer name of another output that the step takes; '' when absent."""
        value = self._read(name, "")
        if not isinstance(value, str):
            raise self._error(name, value, "the layer_name of an output")
        if value:
            self.outputs += (value,)
        return value

    def want_samples(self) -> None:
        """Declare that the step's last argument is the samples of the batch, as they were read."""
        self.wants_samples = True

    def declare_forms(self, forms: Forms) -> None:
        """Declare further `forms` of the step's function, which give the same result."""
        self.forms = forms

    def note(self, text: str) -> None:
        """Have a `text` stand in the notes of every run that uses the step."""
        self.notes += (text,)

    def _present(self, names: Sequence[str]) -> str:
        return next((name for name in names if name in self._unread), names[0])

    def _read(self, name: str, default: object) -> Any:
        self.read_names.append(name)
        value = self._unread.pop(name, _MISSING)
        return default if value is _MISSING else value

    def _error(self, name: str, value: object, expected: str) -> BadParameter:
        return BadParameter(self.operator, name, value, expected)


@dataclass(frozen=True, slots=True)
class ClassNames:
    """The lines of a label file, one for each class; without a file every name is ''."""

    file: str
    lines: tuple[str, ...]

    def require(self, classes: int) -> None:
        """Raise ValueError unless there is one line for each class, so that no name is shifted."""
        if self.file and len(self.lines) != classes:
            raise ValueError(
                f"label file {self.file} has {len(self.lines)} labels,"
                f" but the model's output has {classes} classes"
            )

    def require_class(self, index: int) -> None:
        """Raise ValueError unless the class with this number has a line."""
        if self.file and not 0 <= index < len(self.lines):
            raise ValueError(
                f"label file {self.file} has {len(self.lines)} labels,"
                f" but the model's output has class {index}"
            )

    def of(self, index: int) -> str:
        """Return the name of a class."""
        return self.lines[index] if self.file else ""


def require_pillow(operator: str) -> str:
    """Return Pillow's version and that of its JPEG decoder, on which pixels depend.

    Raises PackageMissing where it is not installed, before a run needs it.
    """
    try:
        import_module("PIL.Image")
        features = import_module("PIL.features")
    except ImportError as error:
        raise PackageMissing(f"step {operator}", f"{error}; install Pillow") from error
    turbo = features.version("libjpeg_turbo")
    decoder = f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version('jpg')}"
    return f"Pillow {features.version('pil')} ({decoder})"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
