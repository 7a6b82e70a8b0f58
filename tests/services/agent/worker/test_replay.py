"""The replay for ncu: which modules' forwards become ranges."""

import pytest

from services.agent.predictors import Opened
from services.agent.worker.replay import ranges


class Compiled:
    """A predictor of a compiled model, as far as a replay looks at it."""

    def __init__(self, mode: str) -> None:
        torch = pytest.importorskip("torch")
        self.module = torch.nn.Sequential(torch.nn.Identity())
        self.opened = Opened(
            "pytorch", "2.11", (), (), "gpu", "H200", "float32", 1, {"compile": mode}
        )


@pytest.mark.parametrize(("mode", "is_wrapped"), [("none", True), ("default", False)])
def test_a_compiled_model_s_modules_are_left_alone(mode: str, is_wrapped: bool) -> None:
    predictor = Compiled(mode)
    with ranges(predictor):  # type: ignore[arg-type]
        assert ("forward" in vars(predictor.module[0])) is is_wrapped


def test_a_module_gets_back_the_forward_that_is_its_own() -> None:
    predictor = Compiled("none")
    inner = predictor.module[0]
    own = inner.forward = lambda tensor: tensor + 1
    with ranges(predictor):  # type: ignore[arg-type]
        assert inner.forward is not own
    assert inner.forward is own
    assert "forward" not in vars(predictor.module)
