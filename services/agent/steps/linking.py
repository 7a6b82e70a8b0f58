"""Links the steps of a pipeline: fewer copies between them, and the same result in every bit.

A picture stays in Pillow from one step to the next that can take it so, and the last step that
changes numbers writes them to their place in the batch, in the order of the model's dimensions.
Each step remains a function of its own, in its own span.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from services.agent.steps import Apply, Operator
from services.agent.steps.forms import NO_FORMS, Array, pixels_of

if TYPE_CHECKING:
    from PIL.Image import Image


def linked(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Return the operators of one input, linked.

    The first takes, and the last returns, what it takes and returns by itself. The last one that
    changes numbers writes to the batch, if it can.
    """
    operators = list(_passing_pictures(operators))
    orders: list[tuple[int, ...]] = []
    for number in reversed(range(len(operators))):
        operator, earlier = operators[number], operators[number - 1] if number else None
        forms = operator.forms
        if forms.write is None:
            break
        if _only_moves(operator, earlier):
            if forms.order:
                orders.append(tuple(np.argsort(forms.order).tolist()))
            continue
        apply = _WriteTo(operator.apply, forms.write, tuple(orders))
        operators[number] = replace(operator, apply=apply, takes_place=True)
        break
    return tuple(operators)


def _passing_pictures(operators: Sequence[Operator]) -> Iterable[Operator]:
    """Yield operators that pass a picture in Pillow to a following one that edits it there."""
    is_passed = is_reversed = False
    for operator, following in zip_longest(operators, operators[1:]):
        forms = operator.forms
        function: Callable[[Any], Image] | None
        if is_passed:
            function = forms.edit_picture
        else:
            function, is_reversed = forms.open_picture, forms.is_reversed
        takes_over = following is not None and following.forms.edit_picture is not None
        if function is None or not (is_passed or takes_over):
            yield operator
            continue
        apply = function if takes_over else _ReturnPixels(function, is_reversed)
        yield replace(operator, apply=apply, forms=NO_FORMS)
        is_passed = takes_over


def _only_moves(operator: Operator, earlier: Operator | None) -> bool:
    """Say whether an operator only moves numbers that the `earlier` one can write in place."""
    if operator.forms.order is None or earlier is None or earlier.forms.write is None:
        return False
    return operator.forms.element_type in (None, earlier.forms.element_type)


@dataclass(frozen=True, slots=True)
class _ReturnPixels:
    """A function of a picture in Pillow that returns its pixels."""

    function: "Callable[[Any], Image]"
    is_reversed: bool

    def __call__(self, value: Any) -> Array:
        return pixels_of(self.function(value), is_reversed=self.is_reversed)


@dataclass(frozen=True, slots=True)
class _WriteTo:
    """A step that writes its result to a place in the batch, where it gets one and fits there.

    The steps after it only move dimensions; `orders` undo that, from the last step back.
    """

    apply: Apply
    write: Callable[[Array, Array], bool]
    orders: tuple[tuple[int, ...], ...]

    def __call__(self, value: Any, place: Array | None = None) -> Any:
        if place is None:
            return self.apply(value)
        for order in self.orders:
            if len(order) != place.ndim:
                return self.apply(value)
            place = place.transpose(order)
        return place if self.write(value, place) else self.apply(value)
