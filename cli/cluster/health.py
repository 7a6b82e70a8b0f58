"""Asks services over the bus whether they answer, each in a thread of its own (I/O)."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from mlscope.health import Hearing

ASK_EVERY_S = 2.0
_FIRST_ASK_EVERY_S = 0.05
_LEAST_SILENCES = 3

Health = Literal["starting", "ready", "silent", "lost"]
"""What is known of a service; a `lost` one has been silent for so long that it is restarted."""


@dataclass(frozen=True, slots=True)
class Silence:
    """How often in a row a service did not answer while the broker was there, and since when."""

    count: int = 0
    since_s: float = 0.0

    def after(self, hearing: Hearing, now_s: float) -> "Silence":
        """Return the silence after a question found `hearing`, asked until `now_s`.

        Without a broker nothing is known of the service: its silence begins anew.
        """
        if hearing != "silent":
            return Silence()
        return replace(self, count=self.count + 1) if self.count else Silence(1, now_s)

    def is_lasting(self, now_s: float, wait_s: float) -> bool:
        """Tell whether it lasts for `wait_s` seconds by several questions.

        One question alone may be late because we were stopped, as by a machine that slept.
        """
        return self.count >= _LEAST_SILENCES and now_s - self.since_s >= wait_s


class HealthWatch:
    """The newest health of one service, asked again and again by a daemon thread."""

    def __init__(
        self, ask: Callable[[], Hearing], wait_s: float, ask_every_s: float = ASK_EVERY_S
    ) -> None:
        """Ask by `ask`, every `ask_every_s`; a service is lost after `wait_s` of silence."""
        self.health: Health = "starting"
        self._ask = ask
        self._wait_s = wait_s
        self._ask_every_s = ask_every_s
        self._silence = Silence()
        self._asked_anew = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Begin anew with a process that was just started."""
        self.health = "starting"
        self._asked_anew.set()
        if not self._thread.is_alive():
            self._thread.start()

    def _run(self) -> None:
        while True:
            if self._asked_anew.is_set():
                self._asked_anew.clear()
                self._silence = Silence()
            hearing = self._ask()
            if not self._asked_anew.is_set():
                now_s = time.monotonic()
                self._silence = self._silence.after(hearing, now_s)
                if hearing == "answers":
                    self.health = "ready"
                elif self._silence.is_lasting(now_s, self._wait_s):
                    self.health = "lost"
                elif "starting" not in (hearing, self.health):
                    self.health = "silent"
            starting = self.health == "starting"
            self._asked_anew.wait(_FIRST_ASK_EVERY_S if starting else self._ask_every_s)
