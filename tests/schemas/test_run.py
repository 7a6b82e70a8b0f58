"""What is said of a run: nothing is announced that was not counted."""

import pytest
from hypothesis import HealthCheck, given, settings

from schemas.encoding.codec import decode, encode, parse
from schemas.encoding.errors import MalformedMessage
from schemas.level import Level
from schemas.message import Envelope
from schemas.run import ClockOrigin, Conditions, RunCompleted, RunFailed, Tally
from tests.schemas.strategies import messages

_SOME = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
_RUN = {"evaluation": "e1", "run": "r0", "attempt": 1, "agent": "a1"}


@given(messages(RunCompleted))
@_SOME
def test_a_completed_run_comes_out_as_it_went_in(fact: RunCompleted) -> None:
    assert decode(encode(Envelope.around(fact, id="1", cause="0", time_ns=5)))[1] == fact


def test_a_failed_run_announces_nothing_unless_it_says_so() -> None:
    failed = parse(RunFailed, _RUN | {"error": "open", "message": "m"})
    assert failed.tally == Tally()
    assert set(Tally().model_dump().values()) == {0}
    assert (failed.origin, failed.level, failed.conditions) == (None, Level.NONE, Conditions())


@pytest.mark.parametrize("field", ["tally", "origin", "conditions"])
def test_a_completed_run_is_nothing_without_its_numbers(field: str) -> None:
    whole = {
        **_RUN,
        "tally": {},
        "origin": ClockOrigin(monotonic_ns=1, epoch_start_ns=2).model_dump(),
        "conditions": {},
    }
    assert parse(RunCompleted, whole).caveats == ()
    with pytest.raises(MalformedMessage) as raised:
        parse(RunCompleted, {name: value for name, value in whole.items() if name != field})
    assert raised.value.field == field
