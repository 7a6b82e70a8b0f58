"""Digests: of the content alone, and sums of them that no order changes."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from schemas.message import Message
from schemas.request import SystemNeed
from services.scheduler.digests import MODULUS, combined, digest_of

DIGESTS = st.integers(0, MODULUS - 1).map(lambda number: f"{number:064x}")


class Labelled(Message):
    """A message whose fields nobody adds to."""

    zone: int
    area: float = 0.5
    labels: dict[str, str]


def test_a_digest_is_that_of_the_canonical_text() -> None:
    labelled = Labelled(zone=1, labels={"zone": "ä", "rack": "7"})
    text = '{"area":0.5,"labels":{"rack":"7","zone":"ä"},"zone":1}'
    assert digest_of(labelled) == hashlib.sha256(text.encode()).hexdigest()


def test_the_order_of_keys_is_no_difference_and_a_value_is() -> None:
    one, other = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}
    assert digest_of(SystemNeed(labels=one)) == digest_of(SystemNeed(labels=other))
    assert digest_of(SystemNeed(labels=one)) != digest_of(SystemNeed(labels={"a": "1"}))


@given(st.lists(DIGESTS, max_size=6))
def test_a_sum_does_not_depend_on_order(digests: list[str]) -> None:
    total = 0
    for each in digests:
        total = combined(total, each)
    backwards = 0
    for each in reversed(digests):
        backwards = combined(backwards, each)
    assert total == backwards
    assert 0 <= total < MODULUS


@given(DIGESTS.filter(lambda each: int(each, 16) not in (0, MODULUS // 2)))
def test_the_same_digest_twice_does_not_cancel_out(digest: str) -> None:
    assert combined(combined(0, digest), digest) != 0
