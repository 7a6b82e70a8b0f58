"""Preparation of collectors before the model's code is loaded, in the process that opens it."""

import logging
from collections.abc import Mapping
from typing import Any

from services.agent.collectors import collector_named
from services.agent.collectors.errors import CollectorError, calling_collector

_log = logging.getLogger(__name__)


def prepare_collectors(switches: Mapping[str, bool | dict[str, Any]]) -> None:
    """Prepare the collectors that a request switches on, where they have `prepare`.

    Failures are logged, not raised: the collector reports them when it is opened.
    """
    for name, switch in switches.items():
        if switch is False:
            continue
        try:
            with calling_collector(name):
                prepare = getattr(collector_named(name), "prepare", lambda _: None)
                prepare(switch if isinstance(switch, dict) else {})
        except CollectorError as error:
            _log.warning("collector %s could not prepare: %s", name, error.reason)
