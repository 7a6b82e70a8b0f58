"""The outputs of an opened model are such as its manifest says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.manifest import ModelManifest, Port
from services.agent.errors import OpenFailed
from services.agent.predictors import TensorPlace
from services.agent.steps import Operator
from services.agent.worker.answers.outputs import check_outputs
from services.agent.worker.opening import open_session
from services.agent.worker.queries.pipeline import Pipeline, PortOperators
from tests.services.agent.builders import MANIFESTS, a_subject, model_named, raw_port

PLACES = (TensorPlace("scores", (-1, 4), "float32"), TensorPlace("labels", (-1, -1), "int64"))
PLAIN = Pipeline(after=(PortOperators(""),))


def a_model(*ports: Port) -> ModelManifest:
    """Return a model of these outputs."""
    return model_named("identity").model_copy(update={"outputs": ports})


def a_port(name: str, shape: tuple[int, ...], kind: str = "float32") -> Port:
    """Return an output without steps."""
    return raw_port(name, shape).model_copy(update={"element_type": kind})


@pytest.mark.parametrize(
    ("port", "told"),
    [
        (a_port("scores", (-1, 5)), r"scores has shape \[-1, 4\], its manifest says \[-1, 5\]"),
        (a_port("", (-1, 4, 1)), r"output scores has .* says \[-1, 4, 1\]"),
        (a_port("scores", (), "int64"), "output scores is float32, its manifest says int64"),
        (a_port("labels", (), "int32"), "output labels is int64, its manifest says int32"),
    ],
)
def test_an_output_that_a_manifest_describes_wrongly_is_refused(port: Port, told: str) -> None:
    with pytest.raises(OpenFailed, match=told):
        check_outputs(a_model(port), PLACES, PLAIN)


@pytest.mark.parametrize(
    "port",
    [
        a_port("scores", ()),
        a_port("scores", (7, 4)),
        a_port("scores", (-1, -1)),
        a_port("labels", (-1, 100), "int64"),
        a_port("labels", ()),
        a_port("", (-1, 4)),
    ],
)
def test_a_manifest_may_leave_outputs_to_its_model(port: Port) -> None:
    check_outputs(a_model(port), PLACES, PLAIN)


BOXES = Operator("boxes", str, extra_outputs=("sores",))


@pytest.mark.parametrize("port", [PortOperators("sores"), PortOperators("scores", (BOXES,))])
def test_an_output_that_steps_read_must_be_there(port: PortOperators) -> None:
    pipeline = Pipeline(after=(port,))
    with pytest.raises(OpenFailed, match=r"has outputs scores, labels; .* steps read 'sores'"):
        check_outputs(a_model(), PLACES, pipeline)
    check_outputs(a_model(), (), pipeline)
    check_outputs(a_model(), PLACES, replace(pipeline, code_after=(BOXES,)))


def test_outputs_that_come_sample_by_sample_are_there() -> None:
    places = (TensorPlace("0.boxes", (-1, 4), "float32"),)
    check_outputs(a_model(), places, Pipeline(after=(PortOperators("0.boxes"),)))


@pytest.mark.parametrize("said", [{"shape": (-1, 5)}, {"element_type": "int64"}])
def test_a_session_of_a_wrong_description_does_not_open(
    said: dict[str, Any], tmp_path: Path
) -> None:
    subject = a_subject()
    (port,) = subject.model.outputs
    model = subject.model.model_copy(update={"outputs": (port.model_copy(update=said),)})
    with pytest.raises(OpenFailed, match=f"output {port.layer_name} "):
        open_session(subject.model_copy(update={"model": model}), 1, MANIFESTS, tmp_path)
