"""The buckets as a scheduler sees them."""

import pytest

from mlscope.bus.records import Entry
from schemas.agent import Lease
from schemas.encoding.codec import encode_body
from schemas.message import Message
from services.scheduler.bucket_views import CatalogView, LeaseView
from tests.services.scheduler.samples import a_dataset, a_model, an_agent


def entry(key: str, value: Message | bytes | None) -> Entry:
    """Return an entry of a bucket."""
    body = encode_body(value, json_text=True) if isinstance(value, Message) else value
    return Entry("bucket", key, body, 1)


def test_the_catalog_is_what_the_entries_say() -> None:
    view = CatalogView()
    for key, value in (
        ("agent_a1", an_agent()),
        ("model_tiny", a_model()),
        ("dataset_v", a_dataset()),
    ):
        assert view.take(entry(key, value))
    catalog = view.catalog()
    assert [a.announcement.agent for a in catalog.agents] == ["a1"]
    assert (catalog.models, catalog.datasets) == ((a_model(),), (a_dataset(),))


def test_the_same_entry_again_is_no_change() -> None:
    view = CatalogView()
    view.take(entry("agent_a1", an_agent()))
    assert not view.take(entry("agent_a1", an_agent()))
    assert view.take(entry("agent_a1", an_agent(state="lost")))
    assert view.take(entry("agent_a1", None))
    assert view.catalog().agents == ()


def test_what_cannot_be_read_is_left_out() -> None:
    view = CatalogView()
    for body in (b"{", b"{}", b'{"kind": "poem"}', b'{"kind": "model"}'):
        assert not view.take(entry("model_x", body))
    assert not view.take(entry("agent_x", b"[]"))
    assert view.catalog().models == ()


def test_what_a_watch_will_tell_of_yet_is_lacking() -> None:
    view = CatalogView()
    seen, gone = Entry("bucket", "a", b"{", 3), Entry("bucket", "b", None, 5)
    assert view.newest_missing([seen, gone]) == 3
    view.take(seen)
    assert view.newest_missing([seen, gone]) == 0
    view.take(Entry("bucket", "b", encode_body(a_model(), json_text=True), 4))
    assert view.newest_missing([gone, seen]) == 5


def test_an_issuer_counts_until_its_lease_is_gone_for_the_grace() -> None:
    leases = LeaseView(grace_s=2.0, lease_s=15.0)
    leases.take(entry("issuer-s1", Lease(holder="s1", incarnation="s1")), 0.0)
    leases.take(entry("issuer-s1", None), 10.0)
    assert leases.issuers(11.0) == {"s1"}
    assert leases.issuers(13.0) == frozenset()


def test_an_issuer_that_comes_back_counts() -> None:
    leases = LeaseView(grace_s=2.0, lease_s=15.0)
    leases.take(entry("issuer-s1", None), 10.0)
    leases.take(entry("issuer-s1", Lease(holder="s1", incarnation="s1")), 11.0)
    assert leases.issuers(100.0) == {"s1"}


def test_an_issuer_that_renews_no_more_is_gone_though_the_broker_keeps_its_lease(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leases = LeaseView(grace_s=2.0, lease_s=15.0)
    lease = Lease(holder="s", incarnation="s")
    leases.take(entry("issuer-dead", lease), 0.0)
    for second in range(18):
        leases.take(entry("issuer-live", lease), float(second))
    assert leases.issuers(17.0) == {"dead", "live"}
    leases.take(entry("issuer-live", lease), 18.0)
    assert leases.issuers(18.0) == {"live"}
    assert "the broker's clock was set back" in caplog.text


def test_issuers_are_not_gone_while_the_broker_was_away() -> None:
    leases = LeaseView(grace_s=2.0, lease_s=15.0)
    lease = Lease(holder="s", incarnation="s")
    leases.take(entry("issuer-s1", lease), 0.0)
    leases.take(entry("issuer-s2", lease), 600.0)
    assert leases.issuers(600.0) == {"s1", "s2"}


def test_what_agents_work_on_is_read_and_nonsense_is_not() -> None:
    leases = LeaseView(grace_s=2.0, lease_s=15.0)
    lease = Lease(holder="a1", incarnation="i1", busy=("e1/r1/2", "nonsense", "e/r/x"))
    leases.take(entry("agent-a1", lease), 0.0)
    assert leases.busy() == {"a1": (("e1", "r1", 2),)}
    leases.take(entry("agent-a1", None), 1.0)
    assert leases.busy() == {}


@pytest.mark.parametrize("text", ["e/r/" + "1" * 5000, "*/r/1", "e/>/1", "e/r/-1", "e/r"])
def test_what_names_no_attempt_ends_nothing_and_is_looked_for_nowhere(text: str) -> None:
    leases = LeaseView(grace_s=2.0, lease_s=15.0)
    lease = Lease(holder="a1", incarnation="i1", busy=(text, "e1/r1/2"), brought_s={text: 1.0})
    leases.take(entry("agent-a1", lease), 0.0)
    assert leases.busy() == {"a1": (("e1", "r1", 2),)}
    assert leases.fetching_s() == {"a1": {}}


def test_of_countless_attempts_the_first_count() -> None:
    leases = LeaseView(grace_s=2.0, lease_s=15.0)
    busy = tuple(f"e{number}/r/1" for number in range(5000))
    leases.take(entry("agent-a1", Lease(holder="a1", incarnation="i1", busy=busy)), 0.0)
    assert len(leases.busy()["a1"]) == 1024


def test_how_long_files_took_is_read_until_the_agent_says_otherwise() -> None:
    leases = LeaseView(grace_s=2.0, lease_s=15.0)
    brought = {"e1/r1/2": 90.5, "nonsense": 1.0}
    lease = Lease(holder="a1", incarnation="i1", busy=("e1/r1/2",), brought_s=brought)
    leases.take(entry("agent-a1", lease), 0.0)
    assert leases.fetching_s() == {"a1": {("e1", "r1", 2): 90.5}}
    leases.take(entry("agent-a1", Lease(holder="a1", incarnation="i1")), 1.0)
    assert leases.fetching_s() == {}


def test_a_lease_whose_times_are_none_says_nothing() -> None:
    leases = LeaseView(grace_s=2.0, lease_s=15.0)
    for took in (b"-1.0", b"NaN", b"Infinity", b'"x"'):
        body = b'{"holder": "a1", "incarnation": "i1", "brought_s": {"e1/r1/2": %s}}' % took
        leases.take(entry("agent-a1", body), 0.0)
        assert leases.fetching_s() == {}
