"""The catalog is a fold, indifferent to repeats and to how its two streams interleave."""

from bisect import bisect_left
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mlscope.bus.records import Recorded
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from schemas.agent import (
    AgentAnnounced,
    AgentDrained,
    AgentLeft,
    AgentLost,
    AgentResumed,
    AgentRevoked,
    Lease,
)
from schemas.encoding.codec import encode
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import Envelope, Fact
from schemas.run import Ceiling
from schemas.subjects import subject_of
from services.registry.decide import decide_back, decide_lost
from services.registry.errors import AnnouncementTooLarge
from services.registry.state import (
    Memory,
    RegistryState,
    catalog_of,
    digest,
    entries,
    evolve,
    evolve_or_pass_over,
    fold,
)
from tests.services.registry.samples import a_model, an_announcement

AGENTS = st.sampled_from(["a1", "a2"])
INCARNATIONS = st.sampled_from(["i1", "i2"])
VERSIONS = st.sampled_from(["1.0.0", "2.0.0"])


def recorded(fact: Fact, sequence: int) -> Recorded:
    """Return a fact as the log keeps it."""
    envelope = Envelope.around(fact, id=f"id{sequence}", cause="", time_ns=sequence)
    return Recorded(subject_of(fact), sequence, envelope, fact)


def announced(agent: str, incarnation: str) -> Fact:
    return AgentAnnounced(agent=agent, announcement=an_announcement(agent, incarnation))


FLEET = st.lists(
    st.one_of(
        st.builds(announced, AGENTS, INCARNATIONS),
        st.builds(AgentLeft, agent=AGENTS, incarnation=INCARNATIONS),
        st.builds(AgentLost, agent=AGENTS, incarnation=INCARNATIONS, revision=st.integers(0, 9)),
        st.builds(AgentDrained, agent=AGENTS),
        st.builds(AgentResumed, agent=AGENTS),
        st.builds(AgentRevoked, agent=AGENTS),
    ),
    max_size=12,
)
MANIFESTS = st.lists(
    st.one_of(
        st.builds(
            lambda version: ManifestPublished(manifest=a_model(version=version), digest="d"),
            VERSIONS,
        ),
        st.builds(ManifestWithdrawn, kind=st.just("model"), name=st.just("m"), version=VERSIONS),
    ),
    max_size=12,
)


def log_of(facts: list[Fact]) -> list[Recorded]:
    return [recorded(fact, number) for number, fact in enumerate(facts, 1)]


@given(FLEET, MANIFESTS)
def test_two_streams_interleave_as_they_like(fleet: list[Fact], manifests: list[Fact]) -> None:
    """Sequences count per stream, so the digest must not depend on which came first."""
    one, other = log_of(fleet), log_of(manifests)
    assert digest(fold(one + other)) == digest(fold(other + one))


def test_an_agent_that_says_too_much_is_passed_over() -> None:
    """Its entry could not be written, and none of those after it."""
    large = an_announcement("a1").model_copy(update={"image": "x" * 600_000})
    fact = AgentAnnounced(agent="a1", announcement=large)
    state, error = evolve_or_pass_over(RegistryState(), recorded(fact, 7))
    assert isinstance(error, AnnouncementTooLarge)
    assert (state.fleet_sequence, state.agents) == (7, {})


def test_an_announcement_that_is_kept_fits_a_message_of_the_registry() -> None:
    """Its key can't store a large payload of an agent, whom it announces again (`decide_back`)."""

    def announced(count: int) -> tuple[RegistryState, AgentAnnounced]:
        # As JSON, each number has four bytes; as msgpack, nine.
        ceiling = Ceiling(conditions={"shares": [0.0] * count})
        own = an_announcement("a1")
        hardware = own.hardware.model_copy(update={"memory_bandwidth": ceiling})
        fact = AgentAnnounced(
            agent="a1", announcement=own.model_copy(update={"hardware": hardware})
        )
        return evolve_or_pass_over(RegistryState(), recorded(fact, 7))[0], fact

    most = bisect_left(range(100_000), True, key=lambda count: not announced(count)[0].agents) - 1
    state, fact = announced(most)
    assert state.agents.keys() == {"a1"}
    assert not announced(100_000)[0].agents
    again = Envelope.around(fact, id="f" * 64, cause="", time_ns=1 << 62)
    assert MAX_PAYLOAD_BYTES - 1024 < len(encode(again)) <= MAX_PAYLOAD_BYTES


@given(FLEET)
def test_a_fact_said_twice_changes_nothing(fleet: list[Fact]) -> None:
    state = RegistryState()
    for each in log_of(fleet):
        state = evolve(state, each)
        assert digest(evolve(state, each)) == digest(state)


def test_an_older_start_cannot_be_lost_again() -> None:
    facts = [
        announced("a1", "i1"),
        announced("a1", "i2"),
        AgentLost(agent="a1", incarnation="i1", revision=3),
    ]
    assert fold(log_of(facts)).agents["a1"].state == "live"


def test_who_is_lost_and_announced_again_is_live() -> None:
    lost = AgentLost(agent="a1", incarnation="i1")
    facts = [announced("a1", "i1"), lost, announced("a1", "i1")]
    assert [fold(log_of(facts[:n])).agents["a1"].state for n in (2, 3)] == ["lost", "live"]


def test_a_withdrawn_manifest_leaves_catalog_and_bucket() -> None:
    facts: list[Fact] = [
        ManifestPublished(manifest=a_model(version="1.0.0"), digest="x"),
        ManifestPublished(manifest=a_model(version="2.0.0"), digest="y"),
        ManifestWithdrawn(kind="model", name="m", version="1.0.0"),
    ]
    state = fold(log_of(facts))
    assert [model.version for model in catalog_of(state).models] == ["2.0.0"]
    assert len(entries(state)) == 1


def test_the_catalog_shows_one_kind_and_one_name() -> None:
    state = fold(log_of([announced("a1", "i1"), announced("a2", "i1")]))
    assert len(catalog_of(state, kind="agent").agents) == 2
    assert [a.announcement.agent for a in catalog_of(state, name="a2").agents] == ["a2"]
    assert catalog_of(state, kind="model").agents == ()


def test_who_is_gone_for_long_is_forgotten_with_the_next_fact() -> None:
    facts = [announced("a1", "i1"), AgentLost(agent="a1", incarnation="i1"), announced("a2", "i1")]
    short, long = Memory(gone_ns=0), Memory(gone_ns=1)
    assert sorted(fold(log_of(facts[:2]), short).agents) == ["a1"]
    assert sorted(fold(log_of(facts), short).agents) == ["a2"]
    assert sorted(fold(log_of(facts), long).agents) == ["a1", "a2"]
    assert "agent_a1" not in entries(fold(log_of(facts), short))


def test_an_agent_whose_clock_is_ahead_has_nobody_forgotten() -> None:
    """The catalog would forget who left today, was drained or revoked."""
    day_ns = 86_400_000_000_000
    left = [announced("a1", "i1"), AgentLeft(agent="a1", incarnation="i1")]
    facts = [*left, announced("a2", "i1"), AgentRevoked(agent="a2"), announced("ahead", "i1")]
    log = [replace(entry, stored_ns=entry.sequence) for entry in log_of(facts)]
    envelope = log[-1].envelope.model_copy(update={"time_ns": 30 * day_ns})
    state = fold([*log[:-1], replace(log[-1], envelope=envelope)])
    assert {agent: status.state for agent, status in state.agents.items()} == {
        "a1": "left",
        "a2": "revoked",
        "ahead": "live",
    }
    assert state.agents["ahead"].since_ns == len(log)


def test_of_many_gone_the_longest_gone_are_forgotten() -> None:
    facts: list[Fact] = []
    for agent in ("a1", "a2", "a3"):
        facts += [announced(agent, "i1"), AgentLeft(agent=agent, incarnation="i1")]
    facts.insert(0, announced("alive", "i1"))
    assert sorted(fold(log_of(facts), Memory(most_gone=1)).agents) == ["a3", "alive"]
    assert len(fold(log_of(facts)).agents) == 4


def test_a_forgotten_agent_that_is_back_is_known_again() -> None:
    facts = [
        announced("a1", "i1"),
        AgentLost(agent="a1", incarnation="i1"),
        announced("a2", "i1"),
        announced("a1", "i2"),
    ]
    assert fold(log_of(facts), Memory(gone_ns=0)).agents["a1"].state == "live"


def test_a_drained_agent_stays_so_after_a_restart_until_it_is_resumed() -> None:
    facts = [announced("a1", "i1"), AgentDrained(agent="a1"), announced("a1", "i2")]
    drained = fold(log_of(facts)).agents["a1"]
    assert (drained.state, drained.is_drained) == ("live", True)
    resumed = fold(log_of([*facts, AgentResumed(agent="a1")])).agents["a1"]
    assert (resumed.state, resumed.is_drained) == ("live", False)


def test_a_revoked_agent_is_neither_lost_nor_back_until_it_joins_again() -> None:
    facts = [announced("a1", "i1"), AgentRevoked(agent="a1")]
    state = fold(log_of(facts))
    assert state.agents["a1"].state == "revoked"
    lease = Lease(holder="a1", incarnation="i1")
    assert list(decide_lost(state, {}, {})) == []
    assert list(decide_back(state, {"a1": lease})) == []
    joined = fold(log_of([*facts, announced("a1", "i2")]))
    assert joined.agents["a1"].state == "live"
