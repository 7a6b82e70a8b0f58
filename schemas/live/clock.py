"""What an agent asks to learn how its clock differs from the cluster's."""

from schemas.message import Message
from schemas.subjects import REQUEST

CLOCK_SUBJECT = f"{REQUEST}.clock"
"""The subject of the question, whose body is empty."""


class ClockRead(Message):
    """When the question was received and when it is answered, in epoch ns of the cluster's clock.

    The cluster's clock is that of the registry's machine.
    """

    received_ns: int
    answered_ns: int
