"""Equal parts of announcements become one object, and say the same as before."""

import pytest

from schemas.status import AgentStatus
from services.scheduler import shared_parts
from services.scheduler.shared_parts import SharedParts
from tests.services.scheduler.samples import a_machine, a_runtime, an_agent


def announced(name: str) -> AgentStatus:
    """Return an agent as it is decoded: no part of it is that of another one."""
    text = an_agent(name, builders=("timm",)).model_dump_json()
    return AgentStatus.model_validate_json(text)


def test_equal_parts_are_one_object() -> None:
    shared = SharedParts()
    first, second = (shared.of(announced(name)).announcement for name in ("a1", "a2"))
    assert (first.agent, second.agent) == ("a1", "a2")
    assert first.runtimes is second.runtimes
    assert first.builders is second.builders


def test_an_agent_says_what_it_said() -> None:
    shared, other = SharedParts(), an_agent("a2", runtimes=(a_runtime(version="1.2"),))
    for status in (announced("a1"), other, an_agent("a3", hardware=a_machine(cores=3))):
        assert shared.of(status) == status


def test_the_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_parts, "_MOST_PARTS", 3)
    shared = SharedParts()
    before = shared.of(announced("a1")).announcement
    assert shared.of(announced("a2")).announcement.runtimes is not before.runtimes
