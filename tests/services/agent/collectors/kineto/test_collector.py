"""The collector kineto driven without a GPU: its host's activities stand for a device's."""

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity  # noqa: E402

from services.agent.collectors.cupti.claim import Claim  # noqa: E402
from services.agent.collectors.errors import CollectorUnavailable  # noqa: E402
from services.agent.collectors.kineto.collector import KinetoCollector  # noqa: E402
from services.agent.collectors.kineto.without_graph import NAME  # noqa: E402
from services.agent.predictors.pytorch.tracing.events import EventNames, KinetoCapture  # noqa: E402
from services.agent.predictors.pytorch.tracing.profiler import SharedProfiler  # noqa: E402
from tests.services.agent.predictors.pytorch.test_predictor import batch  # noqa: E402
from tests.services.agent.predictors.pytorch.test_profiler import predict  # noqa: E402

HOST = SimpleNamespace(
    zeros=lambda *_, **__: None,
    cuda=SimpleNamespace(synchronize=lambda: None),
    autograd=torch.autograd,
)


class OnHost(SharedProfiler):
    """A profiler whose device is the host."""

    def __init__(self) -> None:
        super().__init__(ProfilerActivity.CPU)


def capture_by(profiler: Any) -> KinetoCapture:
    return KinetoCapture(EventNames("cpu"), predict, [batch()], profiler=profiler)


def names(collector: KinetoCollector) -> list[str]:
    collector.begin()
    return [span.name for span in collector.end().spans]


def test_a_compiled_models_operators_and_a_collector_share_a_block() -> None:
    profiler, claim = OnHost(), Claim()
    capture = capture_by(profiler)
    collector = KinetoCollector(HOST, profiler, claim)
    collector.begin()
    assert claim.holder == "kineto"
    capture.predict(batch())
    collector.end()
    assert claim.holder == ""
    (call,) = capture.close()
    assert "aten::relu" in [layer.name for layer in call]


def test_one_call_without_the_graph_follows_the_first_block_alone() -> None:
    profiler = OnHost()
    profiler.unreplayed = lambda alone: (capture_by(alone), batch())
    collector = KinetoCollector(HOST, profiler, Claim())
    collector.begin()
    assert collector.end(is_warmup=True).spans == ()
    first = names(collector)
    assert first[0] == NAME
    assert "aten::relu" in first
    assert names(collector) == []


def test_a_block_that_cannot_begin_gives_cupti_back() -> None:
    claim = Claim()
    claim.take("cupti")
    with pytest.raises(CollectorUnavailable, match="cupti holds CUPTI"):
        KinetoCollector(HOST, OnHost(), claim).begin()
    broken = KinetoCollector(HOST, SimpleNamespace(), other := Claim())
    with pytest.raises(AttributeError):
        broken.begin()
    assert other.holder == ""
