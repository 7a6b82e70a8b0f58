"""An invitation is one word, which says all that a machine needs."""

import pytest

from cli.failures import Misused
from cli.inputs.invitation import Invitation, invitation_in

INVITATION = Invitation("gpu1", "tls://192.0.2.7:4222", "SUABC", "-----BEGIN …\n", 1.5)


def test_a_word_says_the_invitation() -> None:
    word = INVITATION.word()
    assert word.split() == [word]
    assert invitation_in(f" {word}\n") == INVITATION
    assert "SUABC" not in repr(INVITATION)


@pytest.mark.parametrize("word", ["", "gpu1", INVITATION.word()[:-9], "mlscope1-bm90IHppcHBlZA"])
def test_half_a_word_is_refused(word: str) -> None:
    with pytest.raises(Misused, match="copy all that `mlscope agents invite NAME` printed"):
        invitation_in(word)
