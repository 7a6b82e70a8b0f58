"""Asks a question again and again, and notes when its answers come."""

import math
import secrets
import threading
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise

from mlscope.bus.envelopes import refusal_reason
from mlscope.bus.nats.broker_socket import BrokerSocket
from mlscope.bus.nats.dialing import dial
from mlscope.bus.nats.wire import PONG, Parser, publication, subscription

EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked on `subject` with the key of this `seed`, and answered below `inbox`."""

    name: str
    seed: str
    subject: str
    inbox: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """When a question was asked, and when its answer came, on the monotonic clock."""

    asked_s: float
    answered_s: float


class Probe(threading.Thread):
    """Asks one question every 0.2 s, whether the one before was answered or not, until `end`.

    A refusal is no answer.
    """

    def __init__(self, question: Question, url: str) -> None:
        """Ask the `question` over the broker at `url`."""
        super().__init__(daemon=True)
        self.question = question
        self.answers: list[Answer] = []
        self._url = url
        self._asked_s: list[float] = []
        # Others are answered below the same inbox: the supervisor, and the probe before this one.
        self._reply = f"{question.inbox}.{secrets.token_hex(4)}-"
        self._is_over = threading.Event()

    def end(self) -> None:
        """Ask no more."""
        self._is_over.set()
        self.join()

    def run(self) -> None:
        """Ask, over a new connection where one is lost."""
        while not self._is_over.is_set():
            try:
                connection, parser = dial(self._url, self.question.seed, "probe")
            except OSError:
                self._is_over.wait(EVERY_S)
                continue
            with closing(connection), suppress(ConnectionError):
                self._ask_over(connection, parser)

    def _ask_over(self, connection: BrokerSocket, parser: Parser) -> None:
        connection.sendall(subscription(f"{self.question.inbox}.*"))
        due_s = time.monotonic()
        while not self._is_over.is_set():
            if (now_s := time.monotonic()) >= due_s:
                due_s = now_s + EVERY_S
                reply = f"{self._reply}{len(self._asked_s)}"
                self._asked_s.append(now_s)
                connection.settimeout(None)
                connection.sendall(publication(self.question.subject, reply, self.question.body))
            connection.settimeout(max(due_s - time.monotonic(), 0.001))
            with suppress(TimeoutError):
                self._hear(connection, parser)

    def _hear(self, connection: BrokerSocket, parser: Parser) -> None:
        received, now_s = connection.recv(), time.monotonic()
        if not received:
            raise ConnectionResetError("the broker closed the connection")
        for frame in parser.feed(received):
            if frame.kind == "PING":
                connection.sendall(PONG)
            is_own = frame.subject.startswith(self._reply)
            if is_own and refusal_reason(frame.body) is None:
                number = int(frame.subject.removeprefix(self._reply))
                self.answers.append(Answer(self._asked_s[number], now_s))


def longest_gap_s(answers: Iterable[Answer], begin_s: float, end_s: float) -> float:
    """Return the longest time without an answer between two times, `begin_s` and `end_s`."""
    inside = sorted(answer.answered_s for answer in answers if begin_s < answer.answered_s < end_s)
    return max(after_s - before_s for before_s, after_s in pairwise([begin_s, *inside, end_s]))


def answers_since_s(answers: Iterable[Answer], end_s: float) -> float:
    """Return when a question that was asked after `end_s` was first answered; inf: not yet."""
    return min(
        (answer.answered_s for answer in answers if answer.asked_s >= end_s), default=math.inf
    )
