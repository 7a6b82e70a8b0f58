"""One profiler for two watchers; on a CPU its host's activities stand for a device's."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity  # noqa: E402

from services.agent.predictors.pytorch.tracing.events import EventNames, KinetoCapture  # noqa: E402
from services.agent.predictors.pytorch.tracing.profiler import SharedProfiler  # noqa: E402
from tests.services.agent.predictors.pytorch.test_predictor import batch  # noqa: E402


@pytest.fixture
def profiler() -> SharedProfiler:
    return SharedProfiler(ProfilerActivity.CPU)


def names(events: Any) -> list[str]:
    return [event.name() for event in events]


def predict(inputs: Any) -> Any:
    return {"y": torch.relu(torch.from_numpy(inputs["x"])).numpy()}


def test_both_watchers_have_the_events_of_one_session(profiler: SharedProfiler) -> None:
    profiler.watch_host()
    profiler.watch_device()
    torch.zeros(3).relu()
    of_device = names(profiler.device_events())
    torch.zeros(3).abs()
    of_host = names(profiler.host_events())
    assert "aten::relu" in of_device
    assert "aten::relu" in of_host
    assert "aten::abs" not in of_host + of_device


def test_a_device_is_watched_on_when_its_host_no_longer_is(profiler: SharedProfiler) -> None:
    profiler.watch_device()
    torch.zeros(3).relu()
    profiler.watch_host()
    torch.zeros(3).abs()
    assert "aten::relu" not in names(profiler.host_events())
    torch.zeros(3).sin()
    seen = names(profiler.device_events())
    assert {"aten::relu", "aten::abs", "aten::sin"} <= set(seen)


def test_who_never_watched_has_nothing(profiler: SharedProfiler) -> None:
    assert list(profiler.device_events()) == []
    profiler.watch_host()
    profiler.host_events()
    assert list(profiler.host_events()) == []


def test_a_capture_has_its_layers_beside_a_collector_of_devices(profiler: SharedProfiler) -> None:
    capture = KinetoCapture(EventNames("cpu"), predict, [batch()], profiler=profiler)
    profiler.watch_device()
    capture.predict(batch())
    assert "aten::relu" in names(profiler.device_events())
    (call,) = capture.close()
    assert "aten::relu" in [layer.name for layer in call]
