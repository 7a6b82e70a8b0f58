"""Load shapes that several threads share."""

import logging
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from mlscope.load.errors import LoadTooSlow
from mlscope.load.scenarios import BUILT_IN
from mlscope.load.time_limit import MAKING_S, in_time
from services.scheduler.placement.load_shapes import LoadShape, LoadShapes, ShapeKey

_log = logging.getLogger(__name__)
_REFUSED_S = 60.0


class SharedLoadShapes(LoadShapes):
    """Makes one load of another package at a time: several large ones may not fit in memory.

    A thread that asks for a shape that is known, or for that of a built-in scenario, does not wait
    for it. Loads of a scenario that did not make one in time are refused for a minute.
    """

    def __init__(self, making_s: float = MAKING_S) -> None:
        """Begin without any shape. Another package has `making_s` to make a load."""
        super().__init__()
        self._making_s = making_s
        #: by scenario that was given up, when it may be tried again, by the monotonic clock
        self._refused_until_s: dict[str, float] = {}
        self._making = threading.Lock()
        self._keeping = threading.Lock()

    def known(self, key: ShapeKey) -> LoadShape | None:
        """Return the shape of `key`, as `LoadShapes.known`."""
        with self._keeping:
            return super().known(key)

    def make(self, key: ShapeKey, parameters: Mapping[str, Any]) -> LoadShape:
        """Make the load of `key` with its `parameters`, as `LoadShapes.make`.

        Raises LoadError.
        """
        scenario = key[0]
        if scenario in BUILT_IN:
            return super().make(key, parameters)
        with self._making:
            # Another thread may have made it meanwhile.
            if shape := self.known(key):
                return shape
            if time.monotonic() < self._refused_until_s.get(scenario, 0.0):
                raise LoadTooSlow(scenario, self._making_s)
            try:
                return in_time(scenario, partial(super().make, key, parameters), self._making_s)
            except LoadTooSlow as error:
                self._refused_until_s[scenario] = time.monotonic() + _REFUSED_S
                _log.error("%s", error)
                raise

    def keep(self, key: ShapeKey, shape: LoadShape) -> None:
        """Keep the `shape` of `key`, as `LoadShapes.keep`."""
        with self._keeping:
            super().keep(key, shape)
