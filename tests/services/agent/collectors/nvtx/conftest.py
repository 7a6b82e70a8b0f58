"""A collector of NVTX ranges around a model's runs."""

from collections.abc import Iterator

import pytest

from services.agent.collectors.nvtx.collector import NvtxCollector, open_collector
from tests.services.agent.collectors.nvtx.request import REQUEST


@pytest.fixture
def collector() -> Iterator[NvtxCollector]:
    opened = open_collector(REQUEST)
    yield opened
    opened.close()
