"""An invitation as one word that a person copies from one machine to another."""

import base64
import binascii
import json
import zlib
from dataclasses import asdict, dataclass, field

from cli.failures import Misused

_PREFIX = "mlscope1-"


@dataclass(frozen=True, slots=True)
class Invitation:
    """What a machine needs to join: `seed` opens a connection that may ask for `agent` once."""

    agent: str
    url: str
    seed: str = field(repr=False)
    #: the certificates, as PEM, that the broker's must be signed by; '' for those of the machine
    authority: str
    ends_s: float

    def word(self) -> str:
        """Return the invitation as one word: a secret until it is used or ends."""
        text = json.dumps(asdict(self), separators=(",", ":"))
        packed = zlib.compress(text.encode(), 9)
        return _PREFIX + base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def invitation_in(word: str) -> Invitation:
    """Return the invitation that `word` holds. Raises Misused."""
    packed = word.strip().removeprefix(_PREFIX)
    try:
        text = zlib.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
        return Invitation(**json.loads(text))
    except (binascii.Error, zlib.error, ValueError, TypeError):
        advice = "copy all that `mlscope agents invite NAME` printed after `join`"
        raise Misused(f"not an invitation: {advice}") from None
