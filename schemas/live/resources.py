"""What a run uses of its machine, said while it is measured and not stored."""

from typing import Annotated

from pydantic import Field

from schemas.message import Message
from schemas.values.identity import Token

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ResourcesUsed(Message):
    """What a run's worker, and its GPU, use now; None where there is no such counter.

    Sent about once a second on a subject of its own, for live viewers; results come from counters
    that are recorded with the run.
    """

    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    #: CPU-seconds a second of the worker and the processes that it started
    cpu_cores: _Amount | None = None
    #: share of the time in which the GPU did something, 0 to 1
    gpu_share: _Amount | None = None
    #: power of the GPU
    power_w: _Amount | None = None
