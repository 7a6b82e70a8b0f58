"""What operators of a PyTorch model allocate, by its own allocators."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from services.agent.predictors.pytorch.memory import Allocations  # noqa: E402
from services.agent.predictors.pytorch.tracing.probe import ModelTrace, memory_of, probe  # noqa: E402


class Sums(torch.nn.Module):  # type: ignore[name-defined]
    """Makes a copy that it lets go, and writes into what it made."""

    def forward(self, x: Any) -> Any:
        """Return two of the sums."""
        return x.double().sum(0).neg().abs_().float()[:2]


def seen(model: Any, *shape: int) -> ModelTrace:
    x = torch.ones(*shape)
    with torch.inference_mode():
        return probe(model, lambda: model(x))


def test_each_operator_has_what_it_asked_its_allocator_for() -> None:
    told = [each.allocated_bytes for each in seen(Sums(), 4, 8).operators]
    # A copy of all as doubles, their sums, less those, in place, as floats, a view.
    assert told == [4 * 8 * 8, 8 * 8, 8 * 8, 0, 8 * 4, 0]


def test_what_an_operator_lets_go_again_counts() -> None:
    softmax = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.ones(1, 64, 8)
    with torch.inference_mode():
        (fast,) = [
            each
            for each in probe(softmax, lambda: softmax(x, x, x, need_weights=False)).operators
            if "attention" in each.name
        ]
    assert fast.allocated_bytes is not None
    assert fast.allocated_bytes > fast.new_bytes


def test_a_pytorch_that_does_not_tell_leaves_the_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise RuntimeError("Profiler is already enabled on this thread")

    monkeypatch.setattr(torch._C._autograd, "_enable_profiler_legacy", refused)
    operators = seen(Sums(), 4, 8).operators
    assert {each.allocated_bytes for each in operators} == {None}
    assert memory_of(operators, 7) == (7, "outputs")


def test_a_model_that_fails_leaves_no_profiler_on() -> None:
    with pytest.raises(RuntimeError, match="mat1"):
        seen(torch.nn.Linear(3, 3), 4, 8)
    assert seen(torch.nn.Linear(8, 3), 4, 8).operators[-1].allocated_bytes is not None


def test_what_lies_in_no_mark_counts_for_none() -> None:
    allocations = Allocations()
    with allocations.watching():
        torch.from_numpy(np.ones(9)).clone()
        with allocations.mark(4):
            torch.ones(5, dtype=torch.float64)
        torch.ones(7)
    assert (allocations.within(4), allocations.within(3)) == (40, 0)
    assert Allocations().within(0) is None
