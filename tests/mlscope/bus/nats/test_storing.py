"""Storing on a server that refuses."""

import pytest

from mlscope.bus.errors import BusError, Conflict, ServerRefused, StreamFull, Unreachable
from mlscope.bus.nats.storing import EXPECTED, EXPECTED_ON, store
from tests.mlscope.bus.nats.test_connection import GREETING, connected, greeting

ERRORS = [
    ({"code": 400, "err_code": 10071, "description": "wrong last sequence: 17"}, Conflict),
    ({"code": 503, "err_code": 10077, "description": "maximum bytes exceeded"}, StreamFull),
    ({"code": 503, "err_code": 10023, "description": "insufficient resources"}, StreamFull),
    ({"code": 500, "err_code": 10047, "description": "insufficient storage"}, StreamFull),
    ({"code": 503, "err_code": 10008, "description": "temporarily unavailable"}, Unreachable),
    ({"code": 409, "err_code": 10158, "description": "duplicate, in process"}, Unreachable),
    ({"code": 500, "err_code": 10118, "description": "stream is offline"}, Unreachable),
    ({"code": 400, "err_code": 10164, "description": "wrong last sequence"}, Conflict),
    ({"code": 400, "err_code": 10003, "description": "bad request"}, ServerRefused),
]


@pytest.mark.parametrize(("said", "kind"), ERRORS, ids=lambda each: str(each)[:40])
async def test_a_servers_no_is_said_in_our_words(said: dict[str, object], kind: type) -> None:
    async with greeting(GREETING) as (greeter, settings), connected(settings, 0.2) as connection:
        greeter.answer = {"error": said}
        with pytest.raises(BusError) as raised:
            await store(connection, "a.b", b"", headers={EXPECTED_ON: "a.>", EXPECTED: "3"})
    assert type(raised.value) is kind
    if isinstance(raised.value, Conflict):
        error = raised.value
        actual = 17 if "17" in str(said["description"]) else 0
        assert (error.subject, error.expected, error.actual) == ("a.>", 3, actual)
