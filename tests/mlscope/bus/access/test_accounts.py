"""What crosses between accounts: nothing but what the table grants, by the way that it can take."""

import pytest

from mlscope.bus.access.accounts import INSIDE, LOG, account_of, crossing
from mlscope.bus.access.permissions import PERMISSIONS, agent_key, permission_of
from mlscope.bus.streams import JETSTREAM, MANAGED, overlap
from schemas.subjects import ROOT

NAMES = (*PERMISSIONS, agent_key("a1"))
CROSSED = crossing({name: permission_of(name) for name in NAMES})


def test_only_who_makes_streams_is_in_their_account() -> None:
    assert {name for name in NAMES if account_of(name) == LOG} == INSIDE == {"provisioner"}


def test_an_account_takes_nothing_that_its_key_may_not_publish() -> None:
    for service in CROSSED.services:
        if service.user != LOG:
            asked_on = service.asked_on or service.subject
            assert asked_on in permission_of(service.user).publish


def test_requests_about_streams_have_names_that_no_account_keeps_for_itself() -> None:
    api = (f"{JETSTREAM}.STREAM.", f"{JETSTREAM}.CONSUMER.INFO.")
    managing = [each for each in CROSSED.services if each.subject.startswith(api)]
    assert {each.user for each in managing} == {
        "collector",
        "curator",
        "gateway",
        "operator",
        "scheduler",
    }
    assert all(each.asked_on.startswith(f"{MANAGED}.") for each in managing)


@pytest.mark.parametrize(
    ("subject", "user", "providers"),
    [
        (f"{ROOT}.trace.>", "gateway", {"agent", "agent-a1"}),
        (f"{ROOT}.resources.>", "gateway", {"agent", "agent-a1"}),
        (f"{ROOT}.watch.*.*", "watcher", {"gateway"}),
        (f"{ROOT}.evaluation.>", "gateway", {LOG}),
        (f"live.{ROOT}.agent.>", "registry", {LOG}),
        ("live.$KV.leases.>", "scheduler", {LOG}),
    ],
)
def test_a_message_comes_from_who_sends_it_unless_a_stream_sends_it_on(
    subject: str, user: str, providers: set[str]
) -> None:
    feeds = [each for each in CROSSED.feeds if (each.user, each.subject) == (user, subject)]
    assert {each.provider for each in feeds} == providers


def test_no_account_asks_itself_by_way_of_the_log() -> None:
    """The server would start with no such configuration: it calls it a cycle."""
    for service in CROSSED.services:
        exported = [each.subject for each in CROSSED.services if each.provider == service.user]
        assert service.user == LOG or not any(overlap(service.subject, own) for own in exported)


@pytest.mark.parametrize(
    ("one", "another", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.*", "*.b", True),
        ("a.>", "*.b.c", True),
        ("a.b", "a.c", False),
        ("a.b", "a.b.c", False),
        ("a.*", "a.>", True),
    ],
)
def test_filters_overlap_where_one_subject_is_on_both(
    one: str, another: str, expected: bool
) -> None:
    assert overlap(one, another) is overlap(another, one) is expected
