"""A query whose samples are being prepared."""

import threading
from dataclasses import dataclass, field

from services.agent.worker.queries.query import Query

POLL_S = 0.05


@dataclass(slots=True)
class Preparation:
    """A query whose samples are being prepared; `ready` is held until all of them are."""

    query: Query
    #: samples that are not prepared yet
    remaining: int
    ready: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.ready.acquire()
