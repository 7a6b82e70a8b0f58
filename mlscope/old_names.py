"""Parameters under the names that they had in the release before. Pure."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def accepting(**new_names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function take parameters by old names also; `new_names` has the new one of each."""

    def with_old_names(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **{new_names.get(key, key): kwargs[key] for key in kwargs})  # type: ignore[arg-type]

        return call

    return with_old_names
