"""What the page of an agent says of its machine."""

from typing import Any

from services.gateway.pages.catalog.agents import AgentRow, AgentView
from tests.services.scheduler.samples import a_machine, an_agent


def facts_of(**hardware: Any) -> dict[str, str]:
    """Return the facts on the page of an agent with this hardware."""
    return dict(_view(**hardware).facts)


def _view(**hardware: Any) -> AgentView:
    return AgentView(AgentRow(an_agent(hardware=a_machine(**hardware)), ()), ())


def test_why_a_roof_is_missing_keeps_the_names_in_it() -> None:
    note = "no GEMM of PyTorch ran on the NVIDIA H200"
    assert _view(roof_note=note).roof_note == "No GEMM of PyTorch ran on the NVIDIA H200"
    assert _view().roof_note == ""


def test_a_host_says_how_it_is_built() -> None:
    built = {"sockets": 2, "physical_cores": 32, "threads_per_core": 4, "numa_nodes": 2}
    caches = {"L1d": 32 << 10, "L3": 10 << 20}
    facts = facts_of(**built, cache_bytes=caches, cpu_features=("asimd", "sve"))
    assert facts["Built of"] == "2 sockets, 32 cores, 4 threads each, 2 NUMA nodes"
    assert facts["Caches"] == "L1d 32 KiB, L3 10 MiB"
    assert facts["Instruction sets"] == "asimd sve"


def test_one_thread_and_one_node_need_no_word() -> None:
    facts = facts_of(sockets=1, physical_cores=4, threads_per_core=1, numa_nodes=1)
    assert facts["Built of"] == "1 socket, 4 cores"


def test_what_is_unknown_is_left_out() -> None:
    assert not {"Built of", "Caches", "Instruction sets"} & facts_of().keys()
