"""NVTX of Python: the real package and PyTorch's, heard while a block runs and not otherwise."""

import importlib.util
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace
from typing import Any

import nvtx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import CollectedSpan, availability_of
from services.agent.collectors.nvtx.collector import NvtxCollector, open_collector
from tests.services.agent.collectors.nvtx.request import REQUEST
from tests.thoroughness import examples

WRAPPED = ("push_range", "pop_range", "mark", "start_range", "get_domain")


def tree(spans: Any) -> list[tuple[str, str]]:
    """Return names with those of their parents."""
    return [(each.name, spans[each.parent].name if each.parent >= 0 else "") for each in spans]


def test_ranges_of_the_package_are_spans(collector: NvtxCollector) -> None:
    annotation = nvtx.annotate("before the block", color="red", domain="shop")
    collector.begin()
    nvtx.push_range("outer", color="blue", domain="shop", category="io", payload=3)
    with annotation, nvtx.annotate("inner", payload=1.5):
        nvtx.mark("here", domain="shop")
    nvtx.pop_range(domain="shop")
    collected = collector.end()
    assert tree(collected.spans) == [
        ("outer", ""),
        ("before the block", "outer"),
        ("inner", "before the block"),
        ("here", "inner"),
    ]
    outer, before, inner, here = collected.spans
    assert outer.attributes == {
        "source": "nvtx", "color": "blue", "domain": "shop", "category": "io", "payload": 3,
    }  # fmt: skip
    assert before.attributes == {"source": "nvtx", "color": "red", "domain": "shop"}
    assert inner.attributes == {"source": "nvtx", "payload": 1.5}
    assert (here.kind, here.duration_ns) == (SpanKind.MARKER, 0)
    assert outer.thread == threading.get_native_id()
    assert (outer.level, collected.dropped, collected.notes) == (Level.APPLICATION, 0, ())


def test_ranges_that_another_thread_ends_are_spans(collector: NvtxCollector) -> None:
    collector.begin()
    numbers = [nvtx.start_range(f"r{n}", domain="shop") for n in range(3)]
    ender = threading.Thread(target=nvtx.end_range, args=(numbers[1],))
    ender.start()
    ender.join()
    nvtx.end_range(numbers[0])
    collected = collector.end()
    assert sorted(each.name for each in collected.spans) == ["r0", "r1"]
    assert collected.notes == ("1 ranges did not end in their block",)
    nvtx.end_range(numbers[2])
    collector.begin()
    assert collector.end().notes == ()


def test_domains_and_threads_have_stacks_of_their_own(collector: NvtxCollector) -> None:
    collector.begin()
    nvtx.push_range("default")
    nvtx.push_range("shop", domain="shop")
    other = threading.Thread(target=nvtx.pop_range)
    other.start()
    other.join()
    nvtx.pop_range()
    nvtx.pop_range(domain="shop")
    nvtx.pop_range()
    spans = collector.end().spans
    assert tree(spans) == [("default", ""), ("shop", "")], "they overlap: neither is in the other"
    assert {each.thread for each in spans} == {threading.get_native_id()}


def test_the_package_is_as_it_was_outside_blocks(collector: NvtxCollector) -> None:
    before = [getattr(nvtx, name) for name in WRAPPED]
    methods = dict(vars(nvtx.annotate))
    collector.begin()
    assert nvtx.push_range is not before[0]
    nvtx.push_range("open at the end")
    notes = collector.end().notes
    assert [getattr(nvtx, name) for name in WRAPPED] == before
    assert dict(vars(nvtx.annotate)) == methods
    assert notes == ("1 ranges did not end in their block",)


def test_what_was_made_in_a_block_is_not_heard_outside(collector: NvtxCollector) -> None:
    collector.begin()
    nvtx.push_range("open at the end")
    made_within = nvtx.annotate("within")
    collector.end()
    with made_within:
        nvtx.mark("unheard")
    collector.begin()
    nvtx.pop_range()
    assert collector.end().spans == []


def test_a_block_that_broke_off_leaves_the_package_as_it_was(collector: NvtxCollector) -> None:
    before = [getattr(nvtx, name) for name in WRAPPED]
    collector.begin()
    collector.close()
    assert [getattr(nvtx, name) for name in WRAPPED] == before


def test_payloads_of_any_kind_are_told(collector: NvtxCollector) -> None:
    collector.begin()
    for payload in ([1, 2], b"ab", 1 << 70, None):
        nvtx.mark("m", payload=payload)
    told = [each.attributes for each in collector.end().spans]
    assert [each and each.get("payload") for each in told] == [[1, 2], "b'ab'", 1 << 70, None]


DECORATED = """
import sys
from services.agent.collectors import CollectorRequest
from services.agent.collectors.nvtx import collector as collecting
from services.agent.collectors.preparing import prepare_collectors
from services.agent.predictors import Opened
assert "nvtx.nvtx" not in sys.modules
prepare_collectors({"nvtx": PREPARED})
import nvtx

@nvtx.annotate("said", domain="shop")
def said(number):
    return inner() + number

@nvtx.annotate()
def inner():
    return 1

assert said(1) == 2
collector = collecting.open_collector(
    CollectorRequest(Opened("onnxruntime", "1", (), (), "cpu", "", "float32", 1, {}), 1)
)
collector.begin()
assert said(2) == 3
spans = collector.end().spans
print([(each.name, each.parent, each.attributes.get("domain")) for each in spans], said.__name__)
"""


@pytest.mark.parametrize(
    ("prepared", "told"),
    [
        ("True", "[('said', -1, 'shop'), ('inner', 0, None)] said"),
        ("False", "[] said"),
    ],
)
def test_decorated_functions_are_heard_where_it_was_asked_for(prepared: str, told: str) -> None:
    script = textwrap.dedent(DECORATED).replace("PREPARED", prepared)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.strip() == told


@settings(deadline=None, max_examples=examples(60))
@given(steps=st.lists(st.sampled_from(["push", "pop", "enter", "leave", "mark"]), max_size=14))
def test_ranges_nest_as_they_were_pushed(steps: list[str]) -> None:
    collector = open_collector(REQUEST)
    collector.begin()
    expected: dict[str, str] = {}
    open_ones: list[tuple[str, Any]] = []
    ended = set()
    for number, step in enumerate(steps):
        name = f"{step}{number}"
        if step in ("push", "enter", "mark"):
            expected[name] = open_ones[-1][0] if open_ones else ""
        if step == "push":
            nvtx.push_range(name)
            open_ones.append((name, None))
        elif step == "enter":
            annotation = nvtx.annotate(name)
            annotation.__enter__()
            open_ones.append((name, annotation))
        elif step == "mark":
            nvtx.mark(name)
            ended.add(name)
        elif open_ones and (open_ones[-1][1] is None) == (step == "pop"):
            name, annotation = open_ones.pop()
            nvtx.pop_range() if annotation is None else annotation.__exit__(None, None, None)
            ended.add(name)
    while open_ones:
        nvtx.pop_range()
        ended.add(open_ones.pop()[0])
    found = dict(tree(collector.end().spans))
    assert found == expected
    assert ended == set(expected)


class Library:
    """Stands in for PyTorch's NVTX of a CUDA build: it says what it was called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            return 40 + len(self.calls)

        return call


def pytorchs(monkeypatch: pytest.MonkeyPatch, library: Any, *, is_real: bool) -> Any:
    """Return `torch.cuda.nvtx` with a library, as it is where PyTorch is loaded."""
    found = importlib.util.find_spec("torch")
    assert found is not None
    (folder,) = list(found.submodule_search_locations or ())
    spec = importlib.util.spec_from_file_location("torch.cuda.nvtx", f"{folder}/cuda/nvtx.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    backends = SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: is_real))
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(_C=SimpleNamespace(), backends=backends)
    )
    monkeypatch.setitem(sys.modules, "torch._C", SimpleNamespace(_nvtx=library))
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "torch.cuda.nvtx", module)
    return module


def heard_of_pytorch(collector: NvtxCollector, module: Any) -> list[CollectedSpan]:
    """Make ranges of every kind within a block, and return what was heard."""
    collector.begin()
    module.range_push("outer")
    with module.range("layer {}", 3):
        module.mark("here")
    module.range_pop()
    module.range_end(module.range_start("apart"))
    return list(collector.end().spans)


def test_pytorchs_ranges_are_heard_beside_its_library(
    collector: NvtxCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library()
    module = pytorchs(monkeypatch, library, is_real=True)
    spans = heard_of_pytorch(collector, module)
    assert tree(spans) == [
        ("outer", ""), ("layer 3", "outer"), ("here", "layer 3"), ("apart", ""),
    ]  # fmt: skip
    assert library.calls == [
        ("rangePushA", "outer"), ("rangePushA", "layer 3"), ("markA", "here"), ("rangePop",),
        ("rangePop",), ("rangeStartA", "apart"), ("rangeEnd", 46),
    ]  # fmt: skip
    module.range_push("after the block")
    assert library.calls[-1] == ("rangePushA", "after the block")
    collector.begin()
    assert collector.end().spans == []


def test_pytorchs_ranges_are_heard_without_cuda(
    collector: NvtxCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytorchs(monkeypatch, None, is_real=False)
    module._nvtx = stub = Library()
    assert [name for name, _ in tree(heard_of_pytorch(collector, module))] == [
        "outer", "layer 3", "here", "apart",
    ]  # fmt: skip
    assert stub.calls == []
    module.range_pop()
    assert stub.calls == [("rangePop",)], "the originals are back"


def test_what_is_not_heard_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "import an export of nsys" in availability_of("nvtx").reason
    monkeypatch.setenv("NVTX_DISABLE", "1")
    assert "NVTX_DISABLE" in availability_of("nvtx").reason
    monkeypatch.setattr("services.agent.collectors.nvtx.collector.find_spec", lambda _: None)
    assert availability_of("nvtx").levels == ()
