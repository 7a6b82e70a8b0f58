"""Digests of messages: of the content alone."""

import hashlib

from mlscope.manifests.digests import digest_of
from schemas.message import Message
from schemas.request import SystemNeed


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
