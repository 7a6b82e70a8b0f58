"""Numbers as people send them: nothing else is taken for one where that would be a guess."""

from typing import Annotated

from pydantic import BeforeValidator


def _no_disguised_integer(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError("an integer, no text and no truth value")
    return value


def _no_disguised_number(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError("a number, no text and no truth value")
    return value


def _no_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("an integer, no truth value")
    return value


Whole = Annotated[int, BeforeValidator(_no_disguised_integer)]
"""A whole number; 2.0 is 2, as JSON has one kind of number."""

Number = Annotated[float, BeforeValidator(_no_disguised_number)]
"""A number."""

Count = Annotated[int, BeforeValidator(_no_truth)]
"""A whole number that an address may name, where all is text: `?limit=50`."""
