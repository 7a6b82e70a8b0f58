"""Parameters that were renamed take their old names for one release."""

from collections.abc import Callable
from inspect import signature

import pytest

from mlscope.client import AsyncClient, Client
from mlscope.client.asynchronous import AsyncEvaluation
from mlscope.client.synchronous import Evaluation
from mlscope.datasets.dataset import Dataset
from mlscope.old_names import accepting_old_names


@accepting_old_names(most="limit")
def bounded(values: str, limit: int = 0) -> str:
    return values[: limit or None]


def test_an_old_name_means_the_new_one() -> None:
    assert bounded("abc", most=2) == bounded("abc", limit=2) == "ab"  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        bounded("abc", least=2)  # type: ignore[call-arg]


def test_a_parameter_by_both_names_is_refused() -> None:
    with pytest.raises(TypeError, match="most is the old name of limit: pass one"):
        bounded("abc", most=2, limit=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "method",
    [
        *(client.trace for client in (AsyncClient, AsyncEvaluation, Client, Evaluation)),
        *(client.predictions for client in (AsyncClient, Client)),
        Dataset.first,
    ],
)
def test_methods_of_release_0_1_take_most_as_limit(method: Callable[..., object]) -> None:
    values = (None for _ in signature(method).parameters)
    with pytest.raises(TypeError, match="multiple values for argument 'limit'"):
        method(*values, most=1)
