"""Dead letters: messages that a service could not process, with the reason."""

from schemas.message import Fact
from schemas.values.identity import Token


class LetterBuried(Fact):
    """A message could not be processed. Published by the service that gave up on it."""

    entity = "dead"
    happened = "buried"
    service: Token
    reason: str
    subject: str
    stream: str = ""
    sequence: int = 0
    deliveries: int = 0
    #: how often an operator had the message handled again, in vain, before this letter
    retries: int = 0
    #: the first 64 KiB of the message
    body: bytes = b""
