"""The Python client: ask, watch and read evaluations, sync and async.

    with Client() as client:
        evaluation = client.run("efficientnet-lite0", scenarios=["online"])
        print(evaluation.wait().state, evaluation.table("latency").rows())

Owns: what a requester may do, as methods. Knows: no service, no database.
"""

from mlscope.client.asynchronous import AsyncClient, AsyncEvaluation
from mlscope.client.errors import (
    ClientError,
    CommandRefused,
    Denied,
    EvaluationRefused,
    NoCluster,
    NoSuchTable,
    NotAnswering,
    StillRunning,
)
from mlscope.client.results import ResultTable, ResultTables
from mlscope.client.synchronous import Client, Evaluation
from mlscope.client.watching import Progress

__all__ = [
    "AsyncClient",
    "AsyncEvaluation",
    "Client",
    "ClientError",
    "CommandRefused",
    "Denied",
    "Evaluation",
    "EvaluationRefused",
    "NoCluster",
    "NoSuchTable",
    "NotAnswering",
    "Progress",
    "ResultTable",
    "ResultTables",
    "StillRunning",
]
