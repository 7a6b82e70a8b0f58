"""Whether the hosts of published weights answer from here: one short request to each."""

import os
from collections.abc import Iterable

from benchmarks.open_catalog.models import HUB, Tried
from mlscope.assets.web.probing import web_fault
from mlscope.settings import Settings

LIMIT_S = 5.0


def reachable_hosts(models: Iterable[Tried]) -> dict[str, str]:
    """Return why each host of weights does not answer, '' where it does."""
    places = sorted({model.weights_at for model in models} - {"a package", "mlscope", "none"})
    hub = Settings.read(os.environ).hub_url
    faults = {}
    for place in places:
        url = hub if place == HUB else f"https://{place}/"
        faults[place] = web_fault(url, LIMIT_S) if url else "none is set (MLSCOPE_HUB_URL)"
    return faults
