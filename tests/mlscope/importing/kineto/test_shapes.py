"""Shapes and FLOP of layers: torch.profiler's own traces against what PyTorch really does."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function

from mlscope.importing import chrome
from mlscope.importing.kineto.shapes import work_of
from mlscope.importing.reading import read_foreign
from mlscope.importing.recording import Recording
from schemas.level import Level
from services.agent.predictors.pytorch.tracing.probe import probe
from tests.thoroughness import examples

Call = Callable[[], torch.Tensor]


def _of(*shape: int) -> torch.Tensor:
    return torch.ones(shape)


_X, _LINE, _ROWS = _of(2, 4, 9, 7), _of(2, 4, 9), _of(2, 3, 5)
_HEADS = _of(2, 3, 6, 8)
CALLS: Mapping[str, Call] = MappingProxyType(
    {
        "conv2d": lambda: functional.conv2d(_X, _of(6, 4, 3, 2), _of(6), stride=(2, 1), padding=1),
        "conv2d of groups": lambda: functional.conv2d(_X, _of(4, 1, 3, 3), dilation=2, groups=4),
        "conv2d unbatched": lambda: functional.conv2d(_X[0], _of(6, 4, 3, 3)),
        "conv1d": lambda: functional.conv1d(_LINE, _of(6, 4, 3), padding=2),
        "conv_transpose2d": lambda: functional.conv_transpose2d(
            _X, _of(4, 3, 3, 3), stride=2, output_padding=1, groups=2
        ),
        "linear": lambda: functional.linear(_ROWS, _of(7, 5), _of(7)),
        "mm": lambda: torch.mm(_of(3, 5), _of(5, 4)),
        "addmm": lambda: torch.addmm(_of(4), _of(3, 5), _of(5, 4)),
        "bmm": lambda: torch.bmm(_ROWS, _of(2, 5, 4)),
        "baddbmm": lambda: torch.baddbmm(_of(2, 3, 4), _ROWS, _of(2, 5, 4)),
        "matmul of a stack": lambda: torch.matmul(_HEADS, _of(3, 8, 4)),
        "mv": lambda: torch.mv(_of(3, 5), _of(5)),
        "dot": lambda: torch.dot(_of(5), _of(5)),
        "scaled_dot_product_attention": lambda: functional.scaled_dot_product_attention(
            _HEADS, _of(2, 3, 5, 8), _of(2, 3, 5, 8)
        ),
        "max_pool2d": lambda: functional.max_pool2d(_X, 3, stride=2, padding=1),
        "max_pool2d rounded up": lambda: functional.max_pool2d(_X, 2, stride=2, ceil_mode=True),
        "avg_pool2d": lambda: functional.avg_pool2d(_X, (3, 2)),
        "adaptive_avg_pool2d": lambda: functional.adaptive_avg_pool2d(_X, 3),
        "relu": lambda: functional.relu(_X),
        "gelu": lambda: functional.gelu(_X),
        "softmax": lambda: functional.softmax(_ROWS, -1),
        "add": lambda: _X + _of(4, 1, 1),
        "mul by a number": lambda: _X * 2,
    }
)


def _file(path: Path, calls: Mapping[str, Call], **options: Any) -> Path:
    for call in calls.values():
        call()
    options = {"record_shapes": True} | options
    with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        for call in calls.values():
            with record_function("query"):
                call()
    profiler.export_chrome_trace(str(path))
    return path


def _layers(recording: Recording) -> list[dict[str, Any]]:
    """Return attributes of the last layer of each query: what is before it makes its inputs."""
    layers = recording.spans.filter(level=int(Level.FRAMEWORK)).unique("query", keep="last")
    return [json.loads(text) for text in layers.sort("query")["attributes"]]


@cache
def _told(folder: Path) -> Mapping[str, dict[str, Any]]:
    found = _layers(read_foreign(_file(folder / "trace.json", CALLS)))
    return dict(zip(CALLS, found, strict=True))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    """Return attributes of each call's layer, of one trace."""
    return _told(tmp_path_factory.mktemp("shapes"))


@pytest.mark.parametrize("name", CALLS)
def test_an_operators_shape_and_flop_are_those_of_pytorch(
    name: str, told: Mapping[str, dict[str, Any]]
) -> None:
    with torch.inference_mode():
        out = CALLS[name]()
        operators = probe(None, CALLS[name]).operators
    assert told[name]["type"] == name.partition(" ")[0]
    assert told[name]["shape"] == list(out.shape)
    assert told[name]["flops"] == sum(each.flops or 0 for each in operators)
    assert told[name]["bytes_written"] == 4 * out.numel()
    assert told[name]["memory_kind"] == "outputs"


def test_inputs_are_tensors_alone_those_of_lists_too(tmp_path: Path) -> None:
    calls = {
        "cat": lambda: torch.cat([_of(2, 3), _of(1, 3)]),
        "relu_": lambda: _of(2, 3).relu_(),
        "view": lambda: _X.view(8, 63),
        "embedding": lambda: functional.embedding(torch.tensor([[1, 2]]), _of(50, 4)),
    }
    cat, in_place, view, embedding = _layers(read_foreign(_file(tmp_path / "t.json", calls)))
    assert (cat["input_shapes"], cat["flops"], "shape" in cat) == ([[2, 3], [1, 3]], 0, False)
    assert (in_place["bytes_written"], "memory_bytes" in in_place) == (24, False)
    assert (view["flops"], view["bytes_read"], view["bytes_written"]) == (0, 0, 0)
    assert (embedding["shape"], embedding["bytes_written"]) == ([1, 2, 4], 32)
    assert embedding["bytes_read"] == 2 * 8 + 32


def test_a_trace_without_shapes_has_none(tmp_path: Path) -> None:
    calls = {"relu": CALLS["relu"]}
    (layer,) = _layers(read_foreign(_file(tmp_path / "t.json", calls, record_shapes=False)))
    assert "input_shapes" not in layer


@pytest.mark.parametrize("is_minified", [False, True])
def test_shapes_are_read_without_the_slow_reader(
    tmp_path: Path, is_minified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path / "t.json", {"cat": lambda: torch.cat([_of(2, 3), _of(1, 3)])})
    if is_minified:
        text = path.read_text().partition('"traceEvents":')[2]
        events, _ = json.JSONDecoder().raw_decode(text.strip())
        path.write_text(json.dumps({"record_shapes": 1, "traceEvents": events}))
    monkeypatch.setattr(chrome, "frame_of", None)
    (layer,) = _layers(read_foreign(path))
    assert layer["input_shapes"] == [[2, 3], [1, 3]]


def test_a_window_below_zero_has_no_work() -> None:
    dims, types = "[[2, 9, 10], []]", '["float", "ScalarList"]'
    assert work_of("aten::avg_pool1d", dims, types, '["", "[3]"]')["flops"] > 0
    assert "flops" not in work_of("aten::avg_pool1d", dims, types, '["", "-1", "1"]')


_STRANGE = st.sampled_from(
    (
        "",
        "[",
        "5",
        "{}",
        "[[1]]",
        "[[1.5, null]]",
        "[[-1, 2]]",
        "[[2, 2], [2, 2], []]",
        *('["float", "float", "float"]', '["float"]', "[[]]", '["x", 5, null]', "[" * 9000),
        f"[[{10**12}, {10**12}], [{2**40}], [9]]",
        '["", "[0]", "[0, 0]"]',
        "[[[[1]]]]",
        *("[" + "9" * 5000 + "]", f"[[{2**39}, 1], [1, {2**39}]]", f"[[{2**40}], [{2**40}, 9]]"),
    )
)
_NAMES = ("conv2d", "matmul", "max_pool2d", "avg_pool9d", "add_", "embedding", "sum", "", "_")


@settings(deadline=None, max_examples=examples(300))
@given(st.sampled_from(_NAMES), _STRANGE, _STRANGE, _STRANGE)
def test_texts_of_other_kinds_say_nothing_that_no_column_holds(
    name: str, dims: str, types: str, concrete: str
) -> None:
    found = work_of(f"aten::{name}", dims, types, concrete)
    assert all(prod(shape) <= 1 << 40 for shape in found.get("input_shapes", []))
    numbers = [value for value in found.values() if isinstance(value, int)]
    assert all(0 <= number < 1 << 63 for number in numbers)
    assert json.loads(json.dumps(found)) == found
