"""Streams and durables as data fit the contract's subjects."""

import pytest

from cli.cluster.servers.nats_conf import MAX_COMMAND_BYTES
from mlscope.bus.streams import (
    DURABLES,
    MAX_MESSAGE_BYTES,
    OBJECTS,
    STREAMS,
    Durable,
    durable_named,
    live_filters,
    matches,
    store_of,
    stream_of,
    without_root,
)
from mlscope.settings import InvalidSetting, Settings
from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.export.documents import address_of
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


@pytest.mark.parametrize("name", FACTS)
def test_only_what_is_purged_keeps_its_payloads_where_they_may_go(name: str) -> None:
    subject = address_of(FACTS[name])
    is_purged = stream_of(subject) in ("TRACES", "QUERIES")
    assert (store_of(subject) != OBJECTS) == is_purged


def test_a_place_lacks_the_root() -> None:
    assert without_root("mlscope.v1.trace.e1.r1.>") == "trace.e1.r1.>"


@pytest.mark.parametrize("name", FACTS)
def test_a_story_is_woken_by_what_its_stream_keeps(name: str) -> None:
    subject = address_of(FACTS[name]).replace("{evaluation}", "e1")
    tokens = subject.split(".")
    filters = live_filters(".".join([*tokens[:2], "*", *tokens[3:]]))
    woken = any(matches(each, subject) for each in filters)
    assert woken == (stream_of(subject) == "EVALUATIONS")


def test_every_place_that_bounds_a_message_means_the_same() -> None:
    assert MAX_MESSAGE_BYTES == MAX_COMMAND_BYTES
    largest = str(MAX_MESSAGE_BYTES)
    assert Settings.read({"MLSCOPE_MAX_REQUEST_BYTES": largest}).max_request_bytes > 0
    with pytest.raises(InvalidSetting):
        Settings.read({"MLSCOPE_MAX_REQUEST_BYTES": str(MAX_MESSAGE_BYTES + 1)})
