"""What the kernels of a compiled PyTorch model do the work of, as Inductor tells it."""

import json
import logging
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from services.agent.predictors.pytorch.tracing.events import Event, EventNames, rows_of
from services.agent.predictors.pytorch.tracing.kernels import Provenance, origins_of

# Inductor's own import warns.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

# Of torch 2.13: a convolution, and a fusion of a norm with what follows it.
TOLD = {
    "cppCodeToPost": {
        "cpp_fused_batch_norm_silu_1:3": ["mul", "div"],
        "extern_kernels.convolution:2": ["convolution"],
        "extern_kernels.convolution:4": ["convolution_1"],
    },
    "postToPre": {
        "mul": ["norm"],
        "div": ["silu"],
        "convolution": ["conv"],
        "convolution_1": ["conv_1"],
    },
}


def record(artifact: str) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "torch.__trace", "levelno": logging.DEBUG})
    made.metadata = {"artifact": {"name": artifact}}
    made.payload = json.dumps(TOLD)
    return made


@pytest.fixture
def provenance() -> Provenance:
    found = Provenance()
    paths = {"norm": "L['fn'].0.norm", "conv": "L['fn'].0.conv", "conv_1": "L['self'].1.conv"}
    nodes = [
        SimpleNamespace(name=name, meta={"nn_module_stack": {"a": (path, None)}})
        for name, path in paths.items()
    ]
    graph = SimpleNamespace(graph=SimpleNamespace(nodes=nodes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch._inductor.compile_fx.compile_fx", lambda *_, **__: None)
        found.backend({})(graph, ())
    return found


def test_kernels_are_known_by_the_name_the_profiler_has(provenance: Provenance) -> None:
    logger = logging.getLogger("torch.__trace")
    with provenance.watching():
        logger.handle(record("another artifact"))
        assert provenance.origins == {}
        logger.handle(record("inductor_provenance_tracking_node_mappings"))
    logger.handle(record("inductor_provenance_tracking_node_mappings"))
    fused = origins_of(provenance.origins, "graph_7_cpp_fused_batch_norm_silu_1", 0)
    assert fused == ["0.norm/norm", "silu"]
    runs = [origins_of(provenance.origins, "aten::convolution", nth) for nth in range(3)]
    assert runs == [["0.conv/conv"], ["1.conv/conv_1"], ()]


def test_rows_are_the_outermost_operators_inside_the_regions() -> None:
    region = "## Call CompiledFxGraph abc ##"
    events = [
        Event("Torch-Compiled Region: 0/0", 0, 100, 1),
        Event(region, 10, 90, 1),
        Event("graph_0_cpp_fused_add_0", 12, 20, 1),
        Event("aten::addmm", 30, 60, 1),
        Event("aten::copy_", 35, 40, 1),
        Event("aten::to", 95, 120, 2),
    ]
    rows = rows_of(reversed(events))
    assert [row.name for row in rows] == ["graph_0_cpp_fused_add_0", "aten::addmm", "aten::to"]
    assert rows[1].regions == ("Torch-Compiled Region: 0/0", "CompiledFxGraph abc")
    assert rows[2].regions == ()


def test_a_kernel_s_row_says_what_it_does(provenance: Provenance) -> None:
    with provenance.watching():
        logging.getLogger("torch.__trace").handle(
            record("inductor_provenance_tracking_node_mappings")
        )
    names = EventNames("cpu", origins=provenance.origins)
    event = Event("graph_0_cpp_fused_batch_norm_silu_1", 5, 9, 3, ("Torch-Compiled Region: 0/0",))
    (layer,) = names.layers_of([event])
    told = json.loads(layer.attributes)
    assert (told["type"], told["original"]) == ("cpp kernel", ["0.norm/norm", "silu"])
    assert (layer.start_ns, layer.duration_ns, layer.thread) == (5, 4, 3)
