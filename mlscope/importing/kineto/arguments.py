"""Arguments of an operator, read from torch.profiler's `record_shapes=True`. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

Shape = tuple[int, ...]

_MAX_ELEMENTS = 1 << 40
"""No tensor is larger, and its counts would not fit a column."""
_MAX_TEXT = 1 << 16
ELEMENT_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long int": 8, "long": 8,
        "int": 4, "short": 2, "short int": 2, "signed char": 1, "unsigned char": 1, "bool": 1,
        "c10::complex<float>": 8, "c10::complex<double>": 16,
        "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1,
    }
)  # fmt: skip
"""Bytes of an element by Kineto's names of types."""
_LISTS = ("TensorList", "GenericList")


@dataclass(frozen=True, slots=True)
class Arguments:
    """An operator's arguments: the shape of each (None unless a tensor), its type and value."""

    shapes: tuple[Shape | None, ...]
    types: tuple[str, ...]
    values: tuple[Any, ...]
    #: the shapes of all tensors in order, including those in lists of tensors
    tensors: tuple[Shape, ...]

    def shape(self, at: int) -> Shape:
        """Return the shape of a tensor argument. Raises ValueError where it is not one."""
        shape = self.shapes[at] if at < len(self.shapes) else None
        if shape is None:
            raise ValueError(at)
        return shape

    def value(self, at: int) -> Any:
        """Return the value of an argument; None where it is missing or has none."""
        return self.values[at] if at < len(self.values) else None

    @property
    def typed(self) -> list[tuple[Shape, str]]:
        """The tensors outside of lists, whose types are known: shape and element type."""
        pairs = zip(self.shapes, self.types, strict=True)
        return [(shape, element_type) for shape, element_type in pairs if shape is not None]

    def numbers(self, at: int, count: int, default: int | None = None) -> list[int]:
        """Return an argument of one number for all axes, or one per axis.

        `at`: its place. `count`: how many axes. `default`: the number where the argument is
        missing or empty. Raises ValueError for any other value.
        """
        value = self.value(at)
        if value in (None, []) and default is not None:
            value = default
        numbers = value if isinstance(value, list) else [value]
        if len(numbers) not in (1, count) or not all(type(number) is int for number in numbers):
            raise ValueError(value)
        if max(map(abs, numbers)) > _MAX_ELEMENTS:
            raise ValueError(value)
        return numbers * (count // len(numbers))


def arguments_of(dims: str, types: str, concrete: str) -> Arguments:
    """Return the arguments of an operator from Kineto's texts.

    `dims`, `types`, `concrete`: the JSON texts of SHAPES, each a list with an element per argument.
    Raises ValueError, TypeError, RecursionError for texts of another form.
    """
    if max(map(len, (dims, types, concrete))) > _MAX_TEXT:
        raise ValueError(len(dims))
    sizes, kinds, texts = json.loads(dims), json.loads(types or "[]"), json.loads(concrete or "[]")
    if not isinstance(sizes, list) or len(kinds) != len(sizes):
        raise ValueError(dims)
    shapes: list[Shape | None] = []
    tensors: list[Shape] = []
    for value, kind in zip(sizes, kinds, strict=True):
        listed = value if kind in _LISTS else [value] if kind in ELEMENT_BYTES else []
        tensors += [tuple(shape) for shape in listed]
        shapes.append(tuple(value) if kind in ELEMENT_BYTES else None)
    if not all(map(is_shape, tensors)):
        raise ValueError(dims)
    return Arguments(tuple(shapes), tuple(kinds), tuple(map(_value, texts)), tuple(tensors))


def is_shape(shape: Shape) -> bool:
    """Return whether sizes are those of a tensor: none negative, and not too many elements."""
    are_sizes = all(type(size) is int and 0 <= size <= _MAX_ELEMENTS for size in shape)
    return are_sizes and prod(shape) <= _MAX_ELEMENTS


def _value(text: Any) -> Any:
    """Return the value of an argument's text; None where it has none."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return None
