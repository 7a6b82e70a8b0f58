"""How many evaluations a person may have open, and request within a day."""

from schemas.people import Asker
from services.scheduler.evaluation.quotas import DAY_NS, Quotas

NOW_NS = 1_800_000_000_000_000_000
SIZE = 400
"""Bytes of a request."""


def test_at_most_so_many_are_open_at_once() -> None:
    quotas, ada = Quotas(), Asker("ada", "requester", at_most=2)
    for evaluation in ("e1", "e2"):
        assert quotas.refusal(ada, 0, NOW_NS) is None
        quotas.request("ada", evaluation, NOW_NS, SIZE)
    refused = quotas.refusal(ada, 0, NOW_NS)
    assert refused is not None
    assert (refused.error, refused.allowed) == ("exhausted", "at most 2 at once")
    assert quotas.refusal(Asker("bob", "requester", at_most=2), 0, NOW_NS) is None
    quotas.end("ada", "e1")
    assert quotas.refusal(ada, 0, NOW_NS) is None
    assert quotas.refusal(ada, 1, NOW_NS) is not None, "one more is being checked"


def test_one_person_leaves_room_for_evaluations_of_others() -> None:
    """Evaluations may wait for a day: one requester's would keep everybody else out."""
    quotas, ada = Quotas(most_open=2), Asker("ada", "requester")
    for evaluation in ("e1", "e2"):
        assert quotas.refusal(ada, 0, NOW_NS) is None
        quotas.request("ada", evaluation, NOW_NS, SIZE)
    refused = quotas.refusal(ada, 0, NOW_NS)
    assert refused is not None
    assert refused.error == "busy"
    assert "ada has 2 evaluations" in refused.message
    assert quotas.refusal(Asker("bob", "requester"), 1, NOW_NS) is None
    assert quotas.refusal(Asker("", "owner"), 9, NOW_NS) is None, "the cluster's own user"
    quotas.end("ada", "e1")
    assert quotas.refusal(ada, 0, NOW_NS) is None


def test_a_refusal_names_the_time_when_the_day_has_room_again() -> None:
    quotas, ada = Quotas(), Asker("ada", "requester", per_day=2)
    for index in range(3):  # three: the limit was higher once
        quotas.request("ada", f"e{index}", NOW_NS + index * 1_000_000_000, SIZE)
        quotas.end("ada", f"e{index}")
    refused = quotas.refusal(ada, 0, NOW_NS + DAY_NS // 2)
    assert refused is not None
    assert "allowed at 2027-01-16 08:00:01+00:00" in refused.message
    assert quotas.refusal(ada, 0, NOW_NS + DAY_NS + 500_000_000) is not None
    assert quotas.refusal(ada, 0, NOW_NS + DAY_NS + 1_000_000_000) is None


def test_without_limits_nobody_is_refused() -> None:
    quotas = Quotas()
    for index in range(100):
        quotas.request("ada", f"e{index}", NOW_NS, SIZE)
    assert quotas.refusal(Asker("ada", "owner"), 0, NOW_NS) is None


def test_requests_that_are_being_checked_count_towards_the_day() -> None:
    quotas, ada = Quotas(), Asker("ada", "requester", per_day=2)
    assert quotas.refusal(ada, 1, NOW_NS) is None
    refused = quotas.refusal(ada, 2, NOW_NS)
    assert refused is not None
    # Nothing was requested yet: there is room again a day from now at the latest.
    assert refused.message == (
        "ada requested 0 evaluations within a day; another is allowed at 2027-01-16 08:00:00+00:00"
    )
    quotas.request("ada", "e1", NOW_NS, SIZE)
    assert quotas.refusal(ada, 0, NOW_NS) is None
    assert quotas.refusal(ada, 1, NOW_NS) is not None


def test_an_evaluation_counts_once_however_often_it_ends() -> None:
    quotas, ada = Quotas(), Asker("ada", "requester", at_most=1)
    quotas.end("ada", "e0")
    quotas.request("ada", "e1", NOW_NS, SIZE)
    quotas.request("ada", "e1", NOW_NS, SIZE)
    quotas.end("ada", "e1")
    assert quotas.refusal(ada, 0, NOW_NS) is None


def test_requests_of_one_person_have_so_many_bytes_a_day() -> None:
    """The log keeps them for ever, in a store that all share."""
    quotas, ada = Quotas(daily_bytes=1000), Asker("ada", "requester")
    for index in range(2):
        assert quotas.refusal(ada, 0, NOW_NS, SIZE) is None
        quotas.request("ada", f"e{index}", NOW_NS + index * 1_000_000_000, SIZE)
        quotas.end("ada", f"e{index}")
    assert quotas.refusal(ada, 0, NOW_NS, 200) is None
    assert quotas.refusal(ada, 1, NOW_NS, 200) is not None, "one more is being checked"
    refused = quotas.refusal(ada, 0, NOW_NS, SIZE)
    assert refused is not None
    assert refused.allowed.startswith("at most 1000 bytes of requests within 24 hours (MLSCOPE_MAX")
    assert "allowed at 2027-01-16 08:00:00+00:00" in refused.message
    assert quotas.refusal(ada, 0, NOW_NS + DAY_NS, SIZE) is None
    second = quotas.refusal(ada, 0, NOW_NS, 2 * SIZE)
    assert second is not None
    assert "allowed at 2027-01-16 08:00:01+00:00" in second.message
    assert quotas.refusal(Asker("bob", "requester"), 0, NOW_NS, SIZE) is None
    for unlimited in (Asker("ada", "owner"), Asker("", "owner")):
        assert quotas.refusal(unlimited, 0, NOW_NS, SIZE) is None
