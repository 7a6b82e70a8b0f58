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


Integer = Annotated[int, _reject(bool, str, reason="an integer, not a string or a boolean")]
"""An integer; 2.0 is 2, as JSON has one kind of number."""

Number = Annotated[float, _reject(bool, str, reason="a number, not a string or a boolean")]
"""A number."""

Count = Annotated[int, _reject(bool, reason="an integer, not a boolean")]
"""An integer that a URL may have, where every value is text: `?limit=50`."""
