"""PyTorch's options, without PyTorch."""

import pytest

from services.agent.errors import BadOption
from services.agent.predictors.pytorch.options import options_of


@pytest.mark.parametrize(("given", "weights"), [({}, ""), ({"weights": "random"}, "random")])
def test_weights_may_be_random(given: dict[str, str], weights: str) -> None:
    assert options_of(given, "cpu", has_gpu=False).by_name()["weights"] == weights


def test_weights_are_nothing_else() -> None:
    with pytest.raises(BadOption, match="weights"):
        options_of({"weights": "best"}, "cpu", has_gpu=False)
