"""How what is wrong ends, through a whole cluster: refused at once, or failed in the record."""

from typing import Any

import pytest

from mlscope.client.errors import EvaluationRefused
from schemas.status import EvaluationStatus
from tests.flow.clusters import Cluster, online, run


def refused(cluster: Cluster, wanted: Any, **request: Any) -> EvaluationRefused:
    """Ask for what can't be accepted and return the refusal."""
    with cluster.client() as client, pytest.raises(EvaluationRefused) as told:
        client.run(wanted, **request)
    return told.value


def failed(cluster: Cluster, **request: Any) -> EvaluationStatus:
    """Evaluate what must fail: with its cause in the record, and no table."""
    status = run(cluster, **{"scenarios": online(), **request})
    assert (status.state, status.tables) == ("failed", ()), status
    assert all(each.state in ("failed", "interrupted") for each in status.runs)
    assert cluster.rows(
        "SELECT DISTINCT outcome, message <> '' FROM run WHERE evaluation = %s", status.evaluation
    ) == [("failed", True)]
    return status
