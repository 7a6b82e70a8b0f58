"""Builders of reference logs."""

from typing import Any

from mlscope.reproducing.logs import (
    reference_log,
)
from schemas.agent import Announcement, Hardware, Runtime
from schemas.analysis import Prediction
from schemas.level import Level
from schemas.manifest import DatasetManifest, FrameworkNeed, ModelManifest, Port, Synthetic
from schemas.plan import Subject
from schemas.reference import ReferenceLog
from schemas.request import Evaluate
from schemas.status import EvaluationStatus, RunStatus

PORT = (Port(type="raw", shape=(-1, 4)),)
MODEL = ModelManifest(
    name="tiny",
    version="1.2.0",
    framework=FrameworkNeed(name="onnxruntime"),
    inputs=PORT,
    outputs=PORT,
)
DATASET = DatasetManifest(name="noise", synthetic=Synthetic(seed=7, shape=(4,)))
SUBJECT = Subject(model=MODEL, dataset=DATASET, framework="onnxruntime", options={"threads": 1})


def an_announcement(agent: str = "a1", **changes: Any) -> Announcement:
    hardware = Hardware(hostname="h", architecture="amd64", cpu_model="Xeon", cores=2)
    return Announcement(
        agent=agent,
        incarnation="i",
        hardware=hardware.model_copy(update=changes),
        runtimes=(Runtime(framework="onnxruntime", version=changes.get("version", "1.31.1")),),
        python_version="3.11.7",
    )


def a_status(state: str = "analyzed", agent: str = "a1") -> EvaluationStatus:
    run = RunStatus(
        run="b1-online-model",
        session="b1",
        agent=agent,
        scenario="online",
        level=Level.MODEL,
        batch_size=1,
        queries=5,
        state="recorded",
        answered=5,
    )
    return EvaluationStatus.model_validate(
        {
            "evaluation": "e1",
            "state": state,
            "model": "tiny",
            "requested_ns": 5,
            "request": Evaluate(model="tiny", key="mine", agents=(agent,), labels={"k": "v"}),
            "subject": SUBJECT,
            "agents": (agent,),
            "runs": (run,),
        }
    )


def a_prediction(sample: int, value: float, query: int = 0, label: str = "cat") -> Prediction:
    features = ({"label": label, "probability": value},)
    return Prediction(run="b1-online-model", query=query, sample=sample, features=features)


def a_log(
    *predictions: Prediction,
    median: float = 100.0,
    known: Announcement | None = None,
    hits: int = 441,
    **conditions: Any,
) -> ReferenceLog:
    accuracy = {"value": hits / 450, "hits": hits, "n": 450}
    run = {"run": "b1-online-model"}
    estimate = {"median": median, "median_low": median * 0.9, "median_high": median * 1.1}
    tables = {
        "conditions": [{**run, "threads": 1, "mlscope_version": "0.1.0", **conditions}],
        "latency": [{**run, **estimate}],
        "throughput": [{**run, "samples_per_s": 1e9 / median}],
        "accuracy": [{"session": "b1", "batch_size": 1, "metric": "top-1", **accuracy}],
    }
    known = known or an_announcement()
    answers = predictions or (a_prediction(0, 0.5), a_prediction(1, 0.25))
    return reference_log(a_status(agent=known.agent), [known], tables, answers)
