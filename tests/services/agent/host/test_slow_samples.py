"""Samples whose decoder hangs, or ends the worker: the run's cause names them."""

import base64
import os
from pathlib import Path

import pytest

from schemas.manifest import DatasetManifest, Sample
from schemas.plan import Subject
from services.agent.link.allowances import Allowances, PreparationLimits
from tests.services.agent.builders import (
    SLEEPY,
    a_run,
    a_sleepy_subject,
    an_order,
    carried_out,
    model_named,
)
from tests.services.agent.worker.preparation.pictures import picture_files, plant_faults

LATE = ("timeout", "sample 1: prepare took longer than 0.5 s (MLSCOPE_PREPARE_TIMEOUT_S)")
ENDED = ("worker_died", "worker was killed by SIGABRT while sample 1 was prepared")
SILENT = (
    "timeout",
    "one predict call, or a heartbeat, took longer than 1 s while sample 1 was prepared",
)
LONG = pytest.mark.long


def sleepy_with_pictures(*names: str) -> Subject:
    """Return a model that only sleeps behind the steps of a picture model, with these pictures."""
    bodies = (picture_files()[name] for name in names)
    samples = tuple(Sample(content=base64.b64encode(body).decode()) for body in bodies)
    subject = a_sleepy_subject()
    model = subject.model.model_copy(update={"inputs": model_named("efficientnet_lite0").inputs})
    dataset = DatasetManifest(name="pictures", samples=samples)
    return subject.model_copy(update={"model": model, "dataset": dataset, "outputs": 0})


@pytest.mark.parametrize(
    ("samples", "picture", "limit_s", "failure"),
    [
        ("ahead", "hang.jpg", 0.5, LATE),
        ("streamed", "crash.jpg", 60.0, ENDED),
        pytest.param("streamed", "hang.jpg", 0.5, LATE, marks=LONG),
        pytest.param("ahead", "crash.jpg", 60.0, ENDED, marks=LONG),
        pytest.param("ahead", "hold.jpg", 60.0, SILENT, marks=LONG),
    ],
)
async def test_a_sample_that_holds_up_or_ends_its_worker_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    samples: str,
    picture: str,
    limit_s: float,
    failure: tuple[str, str],
) -> None:
    faults = plant_faults(tmp_path / "faults")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(SLEEPY), faults)))
    # At level application several threads prepare a batch ahead.
    run = a_run(level="application", samples=samples, queries=2)
    # The first one fails at once, however busy the machine.
    order = an_order(sleepy_with_pictures("broken.jpg", picture), [run])
    allowances = Allowances(preparation=PreparationLimits(sample_timeout_s=limit_s))
    silence_s = 1.0 if failure == SILENT else 30.0
    kept = await carried_out(order, tmp_path, silence_s=silence_s, allowances=allowances)
    error, cause = failure
    assert kept.failed().error == error
    assert kept.failed().message.startswith(cause)
