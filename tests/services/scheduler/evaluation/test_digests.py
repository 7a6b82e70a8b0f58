"""Digests: of the content alone, and sums of them that no order changes."""

import hashlib
import random

from hypothesis import given
from hypothesis import strategies as st

from mlscope.evaluation.status import status_of
from schemas.evaluation import EvaluationRequested
from schemas.message import Message
from schemas.request import SystemNeed
from services.scheduler.evaluation.digests import MODULUS, combined, digest_of, digest_of_state
from services.scheduler.evaluation.state import EvaluationState
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import E, Story, ready_fact

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


def test_the_digest_sees_what_a_status_does_not_show() -> None:
    story = Story(random.Random(1), agents={"a1": an_agent("a1")})
    story.say(EvaluationRequested(evaluation=E, request=a_request(), requested_ns=5))
    story.settle()
    before = story.state
    story.say(ready_fact(before.runs["b1-online-model"], 1, story.dice))
    assert status_of(before, "") == status_of(story.state, "")
    assert digest_of_state(before) != digest_of_state(story.state)


def test_the_digest_leaves_out_where_in_the_log_facts_lie() -> None:
    state = EvaluationState(evaluation=E, sequence=1, decided=1, last_id="x")
    moved = EvaluationState(evaluation=E, sequence=9, decided=8, last_id="y")
    assert digest_of_state(state) == digest_of_state(moved)
