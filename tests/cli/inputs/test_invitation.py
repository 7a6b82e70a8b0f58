"""An invitation is one word, which says all that a machine needs."""

import base64
import io
import tracemalloc
import zlib

import pytest

from cli.failures import Misused
from cli.inputs.invitation import Invitation, invitation_in, typed_invitation

INVITATION = Invitation("gpu1", "tls://192.0.2.7:4222", "SUABC", "-----BEGIN …\n", 1.5)


def test_a_word_says_the_invitation() -> None:
    word = INVITATION.word()
    assert word.split() == [word]
    assert invitation_in(f" {word}\n") == INVITATION
    assert "SUABC" not in repr(INVITATION)


@pytest.mark.parametrize("word", ["", "gpu1", INVITATION.word()[:-9], "mlscope1-bm90IHppcHBlZA"])
def test_half_a_word_is_refused(word: str) -> None:
    with pytest.raises(Misused, match="the last line that `mlscope agents invite NAME` printed"):
        invitation_in(word)


def test_a_word_of_nested_lists_is_refused() -> None:
    packed = zlib.compress(b"[" * 8000, 9)
    with pytest.raises(Misused):
        invitation_in(f"mlscope1-{base64.urlsafe_b64encode(packed).decode()}")


def test_a_word_that_unpacks_to_megabytes_is_refused() -> None:
    packed = zlib.compress(b'{"agent": "' + bytes(64 << 20), 9)
    word = f"mlscope1-{base64.urlsafe_b64encode(packed).decode()}"
    tracemalloc.start()
    try:
        with pytest.raises(Misused):
            invitation_in(word)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_what_invite_prints_may_be_piped_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"mlscope join -\n{INVITATION.word()}\n"))
    assert invitation_in(typed_invitation()) == INVITATION
