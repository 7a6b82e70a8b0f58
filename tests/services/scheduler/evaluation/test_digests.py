"""Digests: of the content alone, and sums of them that no order changes."""

import random

from hypothesis import given
from hypothesis import strategies as st

from mlscope.evaluation.status import status_of
from schemas.evaluation import EvaluationRequested
from services.scheduler.evaluation.digests import MODULUS, combined, digest_of_state
from services.scheduler.evaluation.state import EvaluationState
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import E, Story, ready_fact

DIGESTS = st.integers(0, MODULUS - 1).map(lambda number: f"{number:064x}")


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
