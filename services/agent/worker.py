"""The worker process: one session's predictor, pacer and pipeline, and no NATS.

    python -m services.agent.worker CHANNEL_FD RING_FD SPOOL_FD SPOOL_BYTES SCRATCH

It hears over its channel: `order` (a WorkOrder), `stop`, `query`, `finish`; it says `ready`,
`answer`, `ended` (an outcome) and `idle`. Its batches go through ring and spool. It ends when
the channel does, so no worker outlives its agent.
"""

import os
import queue
import socket
import sys
import threading
from pathlib import Path

from mlscope.tracing.clock import now_ns
from schemas.codec import decode_body, encode_body
from schemas.plan import WorkOrder
from services.agent.channel import Channel, Words
from services.agent.collectors.preparing import prepare_collectors
from services.agent.control import Control, RunName, remote_query
from services.agent.errors import AgentError
from services.agent.group import Group, Outcome
from services.agent.measurement import failed
from services.agent.reopening import Reopening
from services.agent.ring import IDLE, OPENING, RUNNING, Handover
from services.agent.session import Session

_BEAT_S = 0.25
_SWITCH_S = 0.0005


class Worker:
    """Does one order after the other; its session opens with the first and stays open."""

    def __init__(self, channel: Channel, handover: Handover, scratch: Path) -> None:
        self._channel, self._handover, self._scratch = channel, handover, scratch
        self._control = Control()
        self._orders: queue.SimpleQueue[Words | None] = queue.SimpleQueue()
        self._session: Session | None = None

    def work(self) -> None:
        """Do orders until the agent closes the session."""
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        threading.Thread(target=self._pulse, name="pulse", daemon=True).start()
        while (words := self._orders.get()) is not None:
            order = decode_body(WorkOrder, words["order"])
            if not self._perform(order, words):
                # Without the word `idle` its agent starts another; closing may hang.
                os._exit(0)
            self._handover.phase = IDLE
            self._channel.send({"kind": "idle"})
        if self._session is not None:
            self._session.close()

    def _perform(self, order: WorkOrder, words: Words) -> bool:
        """Do an order; False where the process is of no more use: its device is lost."""
        self._handover.phase = OPENING
        reopening = Reopening(words, self._scratch)
        prepare_collectors(order.subject.collectors)
        try:
            session = self._session or reopening.open()
        except AgentError as error:
            for run in order.runs:
                self._say_ended(failed(order, run, error))
            return True
        self._session = session
        self._handover.phase = RUNNING
        control, push, send = self._control, self._handover.push, self._channel.send
        group = Group(session, order, control, push, send, reopening)
        for outcome in group.perform():
            self._say_ended(outcome)
        return not group.has_lost_device

    def _say_ended(self, outcome: Outcome) -> None:
        words = {"kind": "ended", "happened": outcome.happened, "body": encode_body(outcome)}
        self._channel.send(words)

    def _listen(self) -> None:
        """Hear the agent; end with it at once when it is gone."""
        try:
            while (words := self._channel.receive()) is not None:
                if words["kind"] == "order":
                    self._orders.put(words)
                elif words["kind"] == "close":
                    self._orders.put(None)
                else:
                    self._heed(words)
        finally:
            os._exit(0)

    def _heed(self, words: Words) -> None:
        run: RunName = (words["evaluation"], words["run"], words["attempt"])
        if words["kind"] == "stop":
            self._control.stop(run, words.get("reason", ""))
        elif words["kind"] == "finish":
            self._control.finish(run)
        elif words["kind"] == "query":
            self._take(run, words)

    def _take(self, run: RunName, words: Words) -> None:
        try:
            refusal = self._control.offer(run, remote_query(words))
        except (KeyError, ValueError, TypeError) as error:
            refusal = f"malformed query: {error}"
        if refusal:
            answer: Words = {"kind": "answer", "run": run[1], "query": words.get("query", -1)}
            self._channel.send({**answer, "status": 1, "service_ns": 0, "error": refusal})

    def _pulse(self) -> None:
        while True:
            session = self._session
            self._handover.beat(now_ns(), 0 if session is None else session.busy_since_ns())
            threading.Event().wait(_BEAT_S)


def main(arguments: list[str]) -> None:
    """Work with the descriptors given on the command line."""
    *numbers, scratch = arguments
    channel_fd, ring_fd, spool_fd, spool_bytes = (int(each) for each in numbers)
    # A stage that comes back from the framework waits this long at most for the interpreter.
    sys.setswitchinterval(_SWITCH_S)
    channel = Channel(socket.socket(fileno=channel_fd))
    Worker(channel, Handover(ring_fd, spool_fd, spool_bytes), Path(scratch)).work()


if __name__ == "__main__":
    main(sys.argv[1:])
