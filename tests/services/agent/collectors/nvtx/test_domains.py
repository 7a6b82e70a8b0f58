"""`nvtx.Domain`'s own methods: heard in blocks, named and kept where it was prepared for."""

import importlib
import subprocess
import sys
from typing import Any

import numpy as np
import nvtx
import pytest

from schemas.batch import SpanKind
from services.agent.collectors.nvtx.collector import NvtxCollector

LIBRARY = importlib.import_module("nvtx._lib.lib")


def real_domain(name: str) -> Any:
    """Return a domain as it is where a profiler is attached."""
    made = object.__new__(LIBRARY.Domain)
    made.handle = LIBRARY.DomainHandle(name)
    made.__init__(name)
    return made


def heard(collector: NvtxCollector) -> list[tuple[str, str, dict[str, Any]]]:
    """Return names with those of their parents, and what was said."""
    spans = collector.end().spans
    return [
        (
            each.name,
            spans[each.parent].name if each.parent >= 0 else "",
            dict(each.attributes or {}),
        )
        for each in spans
    ]


def test_an_unnamed_domains_ranges_are_named_by_their_calls(collector: NvtxCollector) -> None:
    domain = nvtx.get_domain("shop")
    collector.begin()
    domain.push_range(message="outer", payload=3)
    forgotten = domain.get_event_attributes("only a prepared domain keeps this")
    domain.push_range(forgotten, category="io", color="red")
    domain.mark()
    domain.pop_range()
    domain.pop_range()
    domain.end_range(domain.start_range(message="apart"))
    said = {"source": "nvtx"}
    assert heard(collector) == [
        ("outer", "", said | {"payload": 3}),
        ("range", "outer", said | {"category": "io", "color": "red"}),
        ("mark", "range", said),
        ("apart", "", said),
    ]
    domain.push_range(forgotten)
    domain.pop_range()


def test_a_profilers_domain_is_heard_and_called(collector: NvtxCollector) -> None:
    domain = real_domain("shop")
    attributes = domain.get_event_attributes("before", color="blue", payload=1)
    collector.begin()
    domain.push_range(attributes)
    domain.mark(message="here")
    domain.pop_range()
    said = {"source": "nvtx", "domain": "shop"}
    assert heard(collector) == [
        ("before", "", said | {"color": "blue", "payload": 1}),
        ("here", "before", said),
    ]


def test_domains_share_their_stacks_with_the_packages_functions(collector: NvtxCollector) -> None:
    domain = real_domain("shop")
    collector.begin()
    nvtx.push_range("pushed by function", domain="shop")
    nvtx.push_range("of the default domain")
    domain.pop_range()
    nvtx.pop_range()
    assert sorted(name for name, *_ in heard(collector)) == [
        "of the default domain", "pushed by function",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["Domain", "DummyDomain"])
def test_domains_are_as_they_were_outside_blocks(collector: NvtxCollector, name: str) -> None:
    kind = getattr(LIBRARY, name)
    before = dict(vars(kind))
    collector.begin()
    assert dict(vars(kind)) != before
    collector.end()
    assert dict(vars(kind)) == before


def test_arrays_are_payloads_of_functions_too(collector: NvtxCollector) -> None:
    collector.begin()
    nvtx.mark("m", payload=np.ones(2))
    (span,) = collector.end().spans
    assert (span.kind, dict(span.attributes or {})["payload"]) == (
        SpanKind.MARKER, "array([1., 1.])",
    )  # fmt: skip


PREPARED = """
from services.agent.collectors import CollectorRequest
from services.agent.collectors.nvtx import collector as collecting
from services.agent.collectors.preparing import prepare_collectors
from services.agent.predictors import Opened
prepare_collectors({"nvtx": True})
prepare_collectors({"nvtx": True})
import nvtx
from nvtx import get_domain, mark
domain = get_domain("shop")
assert domain is get_domain("shop") is not get_domain()
assert isinstance(domain, nvtx._lib.lib.DummyDomain)
look = domain.get_event_attributes(domain.get_registered_string("look up"), payload=1)
domain.push_range(look), domain.pop_range()
collector = collecting.open_collector(
    CollectorRequest(Opened("onnxruntime", "1", (), (), "cpu", "", "float32", 1, {}), 1)
)
collector.begin()
look.payload = 7
domain.push_range(look)
domain.set_event_attributes(look, message="renamed")
domain.mark(look)
mark("imported by name")
domain.pop_range()
get_domain().push_range(message="default")
nvtx.pop_range()
for each in collector.end().spans:
    print(each.name, each.parent, sorted(each.attributes.items()))
"""


def test_prepared_domains_know_their_names_and_what_was_made_for_later() -> None:
    done = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True)
    assert done.stderr == ""
    shop = "[('domain', 'shop'), ('payload', 7), ('source', 'nvtx')]"
    assert done.stdout.splitlines() == [
        f"look up -1 {shop}",
        f"renamed 0 {shop}",
        "imported by name 0 [('color', 'blue'), ('source', 'nvtx')]",
        "default -1 [('source', 'nvtx')]",
    ]
