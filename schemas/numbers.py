"""Numbers as people send them. A text or truth value is never taken for a number."""

from typing import Annotated

from pydantic import BeforeValidator


def _reject(*types: type, reason: str) -> BeforeValidator:
    """Return a validator that rejects values of these types before pydantic converts them."""

    def validate(value: object) -> object:
        if isinstance(value, types):
            raise ValueError(reason)
        return value

    return BeforeValidator(validate)


Integer = Annotated[int, _reject(bool, str, reason="an integer, no text and no truth value")]
"""An integer; 2.0 is 2, as JSON has one kind of number."""

Number = Annotated[float, _reject(bool, str, reason="a number, no text and no truth value")]
"""A number."""

Count = Annotated[int, _reject(bool, reason="an integer, no truth value")]
"""An integer that a URL may have, where every value is text: `?limit=50`."""
