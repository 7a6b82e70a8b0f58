"""Leases, entry by entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.bus.records import Entry
from schemas.agent import Lease
from schemas.encoding.codec import encode_body
from services.registry.leases import Leases, is_held, lease_key


def entry(agent: str, incarnation: str | None, revision: int = 1) -> Entry:
    """Return an agent's entry of the bucket; None for a lease that is gone."""
    lease = incarnation and Lease(holder=agent, incarnation=incarnation)
    body = encode_body(lease, json_text=True) if lease else None
    return Entry("leases", lease_key(agent), body, revision)


ENTRIES = st.lists(
    st.tuples(st.sampled_from(["a1", "a2"]), st.sampled_from(["i1", "i2", None])), max_size=20
)


@given(ENTRIES)
def test_what_is_held_is_what_each_agents_last_entry_says(
    told: list[tuple[str, str | None]],
) -> None:
    leases = Leases()
    for revision, (agent, incarnation) in enumerate(told, 1):
        leases = leases.after(entry(agent, incarnation, revision), float(revision))
    last = dict(told)
    held = {agent: lease.incarnation for agent, lease in leases.by_agent.items()}
    assert held == {agent: each for agent, each in last.items() if each}
    revisions = {agent: n for n, (agent, incarnation) in enumerate(told, 1) if incarnation}
    assert leases.revisions == revisions
    for least in range(len(told) + 2):
        assert set(leases.renewed_since(least)) == {
            agent for agent in held if revisions[agent] >= least
        }


def test_agents_that_nobody_knows_any_more_are_forgotten() -> None:
    leases = Leases()
    for revision, agent in enumerate(("held", "known", "gone"), 1):
        leases = leases.after(entry(agent, "i1", revision), float(revision))
    for agent in ("known", "gone"):
        leases = leases.after(entry(agent, None), 4.0)
    assert leases.known({"known"}).revisions == {"held": 1, "known": 2}
    assert leases.renewed_s == {"held": 1.0}


def test_other_holders_leases_and_nonsense_are_none() -> None:
    leases = Leases().after(entry("a1", "i1"), 0.0)
    issuer = Entry("leases", "issuer-s1", b"{}", 2)
    assert leases.after(issuer, 1.0) is leases
    for body in (b"", b"{", b"[]", b"\xc1", b'{"holder": "a1"}'):
        assert leases.after(Entry("leases", "agent-a1", body, 3), 1.0).by_agent == {}


@pytest.mark.parametrize(
    ("found", "is_its"),
    [
        (entry("a1", "i1"), True),
        (entry("a1", "i2"), False),
        (entry("a1", None), False),
        (Entry("leases", "agent-a1", b"nonsense", 1), False),
        (None, False),
    ],
)
def test_a_lease_is_that_of_one_start(found: Entry | None, is_its: bool) -> None:
    assert is_held(found, "i1") is is_its
