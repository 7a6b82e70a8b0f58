"""Streams and durables as data fit the contract's subjects."""

import pytest

from mlscope.bus.memory.log import matches
from mlscope.bus.streams import DURABLES, STREAMS, Durable, durable_named, stream_of
from schemas.catalogue import COMMANDS, FACTS
from schemas.export import address_of
from schemas.subjects import command_subject, story_of


@pytest.mark.parametrize("name", FACTS)
def test_one_stream_keeps_a_fact(name: str) -> None:
    subject = address_of(FACTS[name])
    keeping = [s.name for s in STREAMS if any(matches(each, subject) for each in s.subjects)]
    assert keeping == [stream_of(subject)]


@pytest.mark.parametrize("verb", COMMANDS)
def test_no_stream_keeps_a_command(verb: str) -> None:
    subject = command_subject(COMMANDS[verb])
    assert not any(matches(each, subject) for s in STREAMS for each in s.subjects)
    with pytest.raises(KeyError):
        stream_of(subject)


@pytest.mark.parametrize("durable", DURABLES, ids=lambda durable: durable.name)
def test_a_durable_takes_facts_of_its_stream(durable: Durable) -> None:
    for each in durable.filters:
        assert stream_of(each) == durable.stream
        assert any(matches(each, address_of(fact)) for fact in FACTS.values()), each


def test_a_story_is_read_from_the_decisions() -> None:
    assert stream_of(story_of("e1")) == "EVALUATIONS"


@pytest.mark.parametrize("name", ["recorder", "analyzer", "spans", "queries"])
def test_an_outage_of_hours_buries_no_trigger(name: str) -> None:
    durable = durable_named(name)
    assert durable.max_deliver * durable.backoff_s[-1] > 4 * 3600
