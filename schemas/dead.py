"""Dead letters: what could not be read or done, with its reason; the service went on."""

from schemas.identity import Token
from schemas.message import Fact


class LetterBuried(Fact):
    """A message nobody could use. Said by the service that gave up on it."""

    entity = "dead"
    happened = "buried"
    service: Token
    reason: str
    subject: str
    stream: str = ""
    sequence: int = 0
    deliveries: int = 0
    #: the first 64 KiB of the message
    body: bytes = b""
