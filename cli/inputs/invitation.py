"""An invitation as one word that a person copies from one machine to another."""

import base64
import binascii
import json
import sys
import zlib
from dataclasses import asdict, dataclass, field
from getpass import getpass

from cli.failures import Misused

_PREFIX = "mlscope1-"
_MOST_BYTES = 1 << 20
"""An invitation unpacked: certificates take a few kB each."""


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


def typed_invitation() -> str:
    """Return what a person types without showing it, or what comes over standard input.

    The arguments of a command can be read by every user of the machine, and stay in the history of
    a shell.
    """
    try:
        return getpass("invitation: ") if sys.stdin.isatty() else sys.stdin.read()
    except EOFError:  # Ctrl-D
        return ""


def invitation_in(text: str) -> Invitation:
    """Return the invitation that the last word of `text` holds. Raises Misused."""
    packed = (text.split() or [""])[-1].removeprefix(_PREFIX)
    try:
        body = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        fields = zlib.decompressobj().decompress(body, _MOST_BYTES)
        return Invitation(**json.loads(fields))
    except (binascii.Error, zlib.error, ValueError, TypeError, RecursionError):
        advice = "copy all of the last line that `mlscope agents invite NAME` printed"
        raise Misused(f"not an invitation: {advice}") from None
