"""A key is rejected for good only if no server takes it any more."""

import pytest

from mlscope.bus.nats.connecting import key_rejection
from mlscope.bus.nats.connecting.key_rejection import KeyRejection


async def test_a_key_that_is_taken_again_is_not_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_rejection, "_REVOKED_AFTER_S", 0.0)
    rejection = KeyRejection()
    rejection.accepted()
    rejection.note("authorization violation")
    assert rejection.is_revoked
    rejection.accepted()
    assert not rejection.is_revoked
