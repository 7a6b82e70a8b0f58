"""What weights cost as a PyTorch model is opened: by module, own weights alone, nothing left on."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from mlscope.tracing.weights import LOAD, PLACE  # noqa: E402
from services.agent.predictors.pytorch.predictor import open_model  # noqa: E402
from services.agent.predictors.pytorch.weights import WeightWatch, own_bytes  # noqa: E402
from tests.services.agent.predictors import nets  # noqa: E402
from tests.services.agent.predictors.pytorch.test_predictor import manifest, request  # noqa: E402


class Net(torch.nn.Module):  # type: ignore[name-defined]
    """Two layers, one within another module, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.token = torch.nn.Parameter(torch.zeros(3))
        self.stem = torch.nn.Linear(4, 8)
        self.body = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.BatchNorm1d(8))


def moved(watch: WeightWatch) -> list[tuple[str, str, int]]:
    return [(each.action, each.module, each.weight_bytes) for each in watch.moves]


BATCH_NORM = 4 * 8 * 4 + 8
"""Weight, bias, running mean and variance of 8, and a count of batches."""


def test_each_module_with_weights_is_loaded_once() -> None:
    watch, net = WeightWatch(is_on=True), Net()
    with watch.loading(net):
        net.load_state_dict(Net().state_dict())
    assert moved(watch) == [
        (LOAD, "Net", 12), (LOAD, "stem", 160), (LOAD, "body.1", BATCH_NORM)
    ]  # fmt: skip
    assert all(each.duration_ns > 0 for each in watch.moves)


def test_a_move_has_a_module_s_own_weights_and_no_time_twice() -> None:
    watch, net = WeightWatch(is_on=True), Net()
    with watch.placing(net):
        net.to(torch.float64)
    assert [each.module for each in watch.moves] == ["stem", "body.1", "Net"]
    assert {each.action for each in watch.moves} == {PLACE}
    ends = [each.start_ns + each.duration_ns for each in watch.moves]
    assert all(end <= each.start_ns for end, each in zip(ends, watch.moves[1:], strict=False))
    assert net.stem.weight.dtype == torch.float64


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_left_on_the_model(fails: bool) -> None:
    watch, net = WeightWatch(is_on=True), Net()
    state: dict[str, Any] = {} if fails else net.state_dict()
    try:
        with watch.loading(net):
            net.load_state_dict(state)
    except RuntimeError:
        assert fails
    assert all("_load_from_state_dict" not in vars(each) for each in net.modules())


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_what_is_off_or_scripted_is_left_alone() -> None:
    off, net = WeightWatch(is_on=False), Net()
    with off.placing(net):
        net.to("cpu")
    assert off.moves == []
    scripted, watch = torch.jit.script(torch.nn.Linear(2, 2)), WeightWatch(is_on=True)
    with watch.placing(scripted):
        scripted.to(torch.float64)
    assert watch.moves == []
    assert own_bytes(torch.nn.ReLU()) == 0


@pytest.mark.parametrize("traces_first", [False, True])
def test_a_cold_opening_says_what_its_weights_took(tmp_path: Path, traces_first: bool) -> None:
    torch.save(nets.small().state_dict(), tmp_path / "w.pth")
    model = manifest(weights="", weights_path="w.pth")
    asked = request(model, weights_path=tmp_path / "w.pth", traces_first=traces_first)
    predictor = open_model(asked)
    first = predictor.opened.first
    predictor.close()
    assert first is not None
    assert [each.module for each in first.weights] == (["0", "1", "4"] if traces_first else [])
    assert {layer.name for layer in first.layers} >= {each.module for each in first.weights}
    for each in first.weights:
        assert first.began_ns <= each.start_ns
        assert each.start_ns + each.duration_ns <= first.loaded_ns
