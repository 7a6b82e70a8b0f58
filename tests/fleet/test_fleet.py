"""Three machines join a cluster over TLS: one is cut off, one revoked, one has a wrong clock."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from cli import exits
from tests.fleet.hosts import ADDRESS, CLOCK, Host, cut, network, why_not

REASON = why_not()
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(REASON), reason=f"NO FLEET IS TRIED: {REASON}"),
]
HOUR_S = 3600
LASTING = "fixed_rate:queries=800,rate_hz=100"
ENDLESS = "fixed_rate:queries=30000,rate_hz=100"
"""Ends only with its machine: on a busy host an order to revoke it takes long."""


@dataclass(frozen=True)
class Fleet:
    """The cluster and its three machines."""

    hub: Host
    cut_off: Host
    revoked: Host
    late: Host
    #: the processes of the agents that joined
    agents: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict, init=False)

    def states(self) -> dict[str, str]:
        """Return the state of each agent."""
        return {row["agent"]: row["state"] for row in self.hub.asked("agents")}

    def ask(self, host: Host, *words: str) -> str:
        """Have a machine evaluate a small model, and return the evaluation's id."""
        asked = ("--agent", host.name, "--detach", "--trace-level", "none", *words)
        return self.hub.mlscope("run", "identity", *asked).split()[-1]

    def status(self, evaluation: str) -> Any:
        """Return what is known of an evaluation."""
        return self.hub.asked("show", evaluation)

    def follow(self, evaluation: str, is_done: Callable[[Any], bool]) -> list[str]:
        """Wait until an evaluation's status is as wanted; return the causes seen meanwhile."""
        causes: dict[str, None] = {}
        deadline = time.monotonic() + 90
        while True:
            status = self.status(evaluation)
            texts = [status["cause"], *(run["cause"] for run in status["runs"])]
            causes.update(dict.fromkeys(filter(None, texts)))
            if is_done(status):
                return [*causes]
            assert time.monotonic() < deadline, json.dumps(status, indent=1)
            time.sleep(0.2)


def is_over(status: Any) -> bool:
    """Tell whether an evaluation has ended."""
    return status["state"] in ("analyzed", "failed", "cancelled")


def is_measuring(status: Any) -> bool:
    """Tell whether queries are being answered."""
    return any(run["state"] == "started" for run in status["runs"])


def until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait until something is so; say `what` is when it does not become so."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


@contextmanager
def joined(fleet: Fleet) -> Iterator[None]:
    """Have the three machines join."""
    hosts = (fleet.cut_off, fleet.revoked, fleet.late)
    with ExitStack() as stack:
        for host in hosts:
            invitation = fleet.hub.mlscope("agents", "invite", host.name).split()[-1]
            fleet.agents[host.name] = stack.enter_context(host.joined(invitation))
        live = {host.name: "live" for host in hosts}
        until(
            lambda: live.items() <= fleet.states().items(),
            lambda: (fleet.states(), [host.log() for host in hosts]),
        )
        yield


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Run a cluster that three machines have joined."""
    wrong = {"TEST_CLOCK_OFFSET_S": str(-HOUR_S), "PYTHONPATH": str(CLOCK)}
    with network({}, {}, wrong) as (hub, hosts):
        hub.mlscope("up", "--detach", "--listen", ADDRESS)
        try:
            one = Fleet(hub, *hosts)
            with joined(one):
                yield one
        finally:
            hub.mlscope("down")


def test_a_wrong_clock_is_measured_and_said(fleet: Fleet) -> None:
    evaluation = fleet.ask(fleet.late, "--scenario", "online:queries=20")
    fleet.follow(evaluation, is_over)
    (row,) = fleet.hub.asked("tables", evaluation, "conditions")["conditions"]
    assert abs(row["clock_offset_ns"] - HOUR_S * 10**9) <= row["clock_bound_ns"]
    assert row["clock_bound_ns"] < 10**9
    assert "3,600 s behind the cluster's" in row["note"]
    assert fleet.status(evaluation)["state"] == "analyzed"


def test_a_machine_that_is_cut_off_is_lost_and_its_run_repeated(fleet: Fleet) -> None:
    evaluation = fleet.ask(fleet.cut_off, "--scenario", LASTING)
    fleet.follow(evaluation, is_measuring)
    cut(fleet.hub, fleet.cut_off, is_cut=True)
    try:
        until(lambda: fleet.states()[fleet.cut_off.name] == "lost", fleet.states)
        causes = fleet.follow(evaluation, lambda status: not is_measuring(status))
    finally:
        cut(fleet.hub, fleet.cut_off, is_cut=False)
    fleet.follow(evaluation, is_over)
    status = fleet.status(evaluation)
    assert status["state"] == "analyzed", (status, causes)
    assert [(run["attempt"], run["answered"]) for run in status["runs"]] == [(2, 800)]
    assert any(f"agent {fleet.cut_off.name} was lost" in cause for cause in causes), causes


def test_a_machine_that_is_revoked_ends_with_the_true_cause(fleet: Fleet) -> None:
    evaluation = fleet.ask(fleet.revoked, "--scenario", ENDLESS)
    fleet.follow(evaluation, is_measuring)
    fleet.hub.mlscope("agents", "revoke", fleet.revoked.name)
    assert fleet.states()[fleet.revoked.name] == "revoked"
    causes = fleet.follow(evaluation, is_over)
    status = fleet.status(evaluation)
    assert status["state"] == "failed", (status, causes)
    assert any(f"agent {fleet.revoked.name} was revoked" in cause for cause in causes), causes
    assert fleet.agents[fleet.revoked.name].wait(30) == exits.AUTH
    last_line = fleet.revoked.log().splitlines()[-1]
    assert last_line.startswith("mlscope join: this agent's key was revoked by its cluster; `")
    # The others never noticed.
    assert fleet.states()[fleet.late.name] == "live"
