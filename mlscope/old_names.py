"""Parameters under the names that they had in the release before. Pure."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def accepting_old_names(**new_names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function take parameters by old names also; `new_names` has the new one of each."""

    def with_old_names(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            renamed = {new_names.get(key, key): kwargs[key] for key in kwargs}
            if len(renamed) < len(kwargs):
                both = [old for old, new in new_names.items() if {old, new} <= set(kwargs)]
                raise TypeError(f"{both[0]} is the old name of {new_names[both[0]]}: pass one")
            return function(*args, **renamed)  # type: ignore[arg-type]

        return call

    return with_old_names
