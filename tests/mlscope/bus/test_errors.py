"""Errors of the bus say what was concerned and what helps."""

import pytest

from mlscope.bus import errors
from mlscope.bus.errors import BusError, ServerRefused

EXAMPLES = [
    (errors.NoAnswer("a.b"), "a.b"),
    (errors.Conflict("a.b", 7), "beyond sequence 7"),
    (errors.StreamFull("a.b"), "a.b"),
    (errors.PayloadsFull("a.b", "batches"), "batches is full, raise MLSCOPE_PAYLOADS_MAX_BYTES"),
    (errors.NotPermitted("a.b"), "a.b"),
    (errors.KeyRevoked("agent"), "agent's key was revoked by its cluster; `mlscope agents invite"),
    (errors.NotProvisioned("LOG"), "mlscope provision"),
    (errors.PayloadTooLarge("a.b", 9, 8), "9 bytes, the limit is 8"),
    (errors.SubjectTooLong("a.b" * 1300), "a subject of 3900 characters: a.b"),
    (errors.NoSuchPayload("plan"), "plan"),
    (errors.PayloadMismatch("plan", "aa", "bb"), "sha256 bb, expected aa"),
    (errors.TooFewServers("LOG", 3), "LOG cannot have 3 replicas: the cluster has fewer servers"),
    (errors.ServerTooOld("2.9.1", "2.12"), "2.9.1 is too old; install 2.12"),
    (errors.NotRetried("collector is still at it"), "collector is still at it"),
    (ServerRefused("a.b", 500, 10049, "no"), "no (500/10049)"),
]


@pytest.mark.parametrize(("error", "said"), EXAMPLES, ids=lambda each: type(each).__name__)
def test_an_error_says_its_fields(error: BusError, said: str) -> None:
    assert said in str(error)


def test_every_error_is_said_here() -> None:
    own = {each for each in vars(errors).values() if isinstance(each, type)}
    kinds = {each for each in own if issubclass(each, BusError)}
    plain = {BusError, errors.Unreachable, errors.NoReply}
    assert kinds - plain == {type(error) for error, _ in EXAMPLES}


def test_a_full_store_holds_back_like_a_full_stream() -> None:
    assert issubclass(errors.PayloadsFull, errors.StreamFull)


def test_a_server_that_tells_little_is_still_understood() -> None:
    refused = ServerRefused.of("a.b", {"code": 503})
    assert (refused.code, refused.error, refused.description) == (503, 0, "")
