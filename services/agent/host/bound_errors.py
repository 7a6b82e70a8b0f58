"""The errors of a worker that uses more of its machine than it may."""

from services.agent.errors import AgentError


class WorkerTooLarge(AgentError):
    """A worker uses more memory than the agent's owner allows."""

    kind = "memory"

    def __init__(self, used_bytes: int, most_bytes: int) -> None:
        """Give the memory it used when it was ended, and the most it may use."""
        self.used_bytes, self.most_bytes = used_bytes, most_bytes
        super().__init__(
            f"the worker used {used_bytes} bytes of memory, it may use {most_bytes}: "
            "ask for a smaller batch size, or have MLSCOPE_WORKER_MEMORY_BYTES raised"
        )


class TooManyProcesses(AgentError):
    """A worker has more processes and threads than the agent's owner allows."""

    kind = "processes"

    def __init__(self, threads: int, most: int) -> None:
        """Give how many `threads` all its processes have, and the `most` they may have."""
        self.threads, self.most = threads, most
        super().__init__(
            f"the worker had {threads} processes and threads, it may have {most}: "
            "ask for fewer threads, or have MLSCOPE_WORKER_PROCESSES raised"
        )


class DiskFull(AgentError):
    """Too little is left of the disk that a worker writes to; it may have written the most."""

    kind = "disk"

    def __init__(self, free: str, reserve: str) -> None:
        """Give what is `free` on the disk, and the `reserve` that must stay free, in words."""
        self.free, self.reserve = free, reserve
        super().__init__(
            f"the disk of the agent's data folder has {free} left, a worker must leave {reserve}: "
            "free space there, or have MLSCOPE_DISK_RESERVE_BYTES lowered"
        )
