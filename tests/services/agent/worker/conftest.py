"""A session of a model on this machine's processor."""

from collections.abc import Iterator

import pytest

from services.agent.worker.opening import open_session
from services.agent.worker.session import Session
from tests.services.agent.builders import MANIFESTS, a_subject


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the identity model."""
    opened = open_session(a_subject(), 1, MANIFESTS, tmp_path_factory.mktemp("scratch"))
    yield opened
    opened.close()
