"""The worker process: one session's predictor, pacer and pipeline, and no NATS.

    python -P -m services.agent.worker.worker CHANNEL_FD RING_FD SPOOL_FD SPOOL_BYTES SCRATCH

Its channel carries the messages of `link.messages`; its batches go through ring and spool. It ends
when the channel does, so that no worker outlives its host.
"""

import os
import queue
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlscope.tracing.clock import now_ns
from schemas.encoding.errors import MalformedMessage
from services.agent.collectors.preparing import prepare_collectors
from services.agent.errors import AgentError
from services.agent.link.channel import WorkerChannel
from services.agent.link.failures import failed_before_start
from services.agent.link.messages import (
    CloseSession,
    FinishLoad,
    IssueQuery,
    OrderDone,
    PerformOrder,
    QueryAnswered,
    RunEnded,
    StopRun,
    ToWorker,
)
from services.agent.link.ring import IDLE, OPENING, RUNNING, Handover
from services.agent.worker.control import Control
from services.agent.worker.ending import end_process
from services.agent.worker.garbage import included_afterwards
from services.agent.worker.group import Group
from services.agent.worker.sandbox.sandbox import enter_sandbox
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener

_BEAT_S = 0.25
_SWITCH_S = 0.0005


class Worker:
    """Performs one order after the other; its session opens with the first and stays open."""

    def __init__(self, channel: WorkerChannel, handover: Handover, scratch: Path) -> None:
        """Take this side of the host's `channel` and `handover`, and this process's own folder.

        Models and collectors write into `scratch`.
        """
        self._channel, self._handover, self._scratch = channel, handover, scratch
        self._control = Control()
        self._orders: queue.SimpleQueue[PerformOrder | None] = queue.SimpleQueue()
        self._session: Session | None = None
        self._notes: Sequence[str] = ()

    def work(self) -> None:
        """Perform orders until the host closes the session.

        The sandbox is closed before any other thread starts: it confines this one, and what it
        starts.
        """
        first = self._channel.receive()
        if isinstance(first, PerformOrder):
            self._notes = enter_sandbox(first, self._scratch)
        if first is None:
            return
        self._handle(first)
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        while (message := self._orders.get()) is not None:
            if not self._perform(message):
                # Without `OrderDone` the host starts another worker; closing may hang.
                os._exit(0)
            self._handover.phase = IDLE
            self._channel.send(OrderDone())
        if self._session is not None:
            self._session.close()

    def _perform(self, message: PerformOrder) -> bool:
        """Perform an order; False where this process lost its device and can't be used again."""
        self._handover.phase = OPENING
        order = message.order
        opener = SessionOpener(message, self._scratch, self._handover.preparation)
        prepare_collectors(order.subject.collectors)
        try:
            if (session := self._session) is None:
                opened = opener.open()
                session = replace(opened, notes=(*opened.notes, *self._notes))
        except AgentError as error:
            for run in order.runs:
                self._channel.send(RunEnded(failed_before_start(order, run, error)))
            return True
        self._session = session
        self._handover.phase = RUNNING
        control, push, send = self._control, self._handover.push, self._channel.send
        group = Group(session, order, control, push, send, opener)
        with included_afterwards():
            for outcome in group.perform():
                self._channel.send(RunEnded(outcome))
        return not group.has_lost_device

    def _listen(self) -> None:
        """Handle the host's messages; exit at once when it is gone, or sends what can't be read."""
        status = 0
        try:
            while (message := self._channel.receive()) is not None:
                self._handle(message)
        except MalformedMessage:
            traceback.print_exc()
            status = 1
        finally:
            os._exit(status)

    def _handle(self, message: ToWorker) -> None:
        """Pass a message on to the thread that works; answer a query that is refused."""
        match message:
            case PerformOrder():
                self._orders.put(message)
            case CloseSession():
                self._orders.put(None)
            case StopRun():
                self._control.stop(message.key, message.reason)
            case FinishLoad():
                self._control.finish(message.key)
            case IssueQuery():
                refusal = self._control.offer(message)
                if refusal:
                    run, query = message.key.run, message.query
                    self._channel.send(QueryAnswered(run, query, status=1, error=refusal))

    def _beat(self) -> None:
        """Record a heartbeat from time to time."""
        while True:
            session = self._session
            self._handover.beat(now_ns(), 0 if session is None else session.busy_since_ns())
            threading.Event().wait(_BEAT_S)


def main(arguments: list[str]) -> None:
    """Work with the descriptors given on the command line."""
    *numbers, scratch = arguments
    channel_fd, ring_fd, spool_fd, spool_bytes = map(int, numbers)
    # A stage that returns from the framework waits this long at most for the interpreter.
    sys.setswitchinterval(_SWITCH_S)
    channel = WorkerChannel(socket.socket(fileno=channel_fd))
    Worker(channel, Handover(ring_fd, spool_fd, spool_bytes), Path(scratch)).work()
    end_process()


if __name__ == "__main__":
    main(sys.argv[1:])
