"""CUPTI has one holder: a second one and a tool outside are refused, by name."""

import pytest

from services.agent.collectors.cupti.claim import Claim, check_outside, outside_holder
from services.agent.collectors.errors import CollectorUnavailable


def test_a_second_collector_is_refused_until_the_first_lets_go() -> None:
    claim = Claim()
    claim.take("kineto", {})
    with pytest.raises(CollectorUnavailable, match="cupti: the collector kineto holds CUPTI"):
        claim.take("cupti", {})
    claim.release("cupti")
    assert claim.holder == "kineto"
    claim.release("kineto")
    claim.take("cupti", {})
    assert claim.holder == "cupti"


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("NSYS_PROFILING_SESSION_ID", "Nsight Systems"),
        ("CUDA_INJECTION64_PATH", "CUDA_INJECTION64_PATH"),
    ],
)
def test_a_tool_outside_is_named(name: str, tool: str) -> None:
    claim = Claim()
    with pytest.raises(CollectorUnavailable, match=tool):
        claim.take("kineto", {name: "1"})
    assert claim.holder == ""
    claim.take("kineto", {name: ""})


def test_nothing_outside_is_no_reason() -> None:
    assert outside_holder({}) == ""
    check_outside("kineto", {})
