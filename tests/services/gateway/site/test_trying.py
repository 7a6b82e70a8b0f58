"""The page that tries models, and what it asks."""

import base64

import httpx

from mlscope.bus.records import ReceivedCommand
from schemas.analysis import Prediction, Predictions
from schemas.encoding.codec import decode_body, encode_body
from schemas.evaluation import EvaluationRequested
from schemas.manifest import Assets, DatasetManifest, FrameworkNeed, ModelManifest, Port, Sample
from schemas.request import ShowPredictions
from schemas.subjects import REQUEST, story_of
from services.gateway.bodies import MOST_FILES
from tests.services.gateway.site.test_new import an_agent
from tests.stand_ins import StandIns
from tests.stories import ending

TEXT = base64.b64encode(b"a file").decode()


def model(name: str, framework: str = "onnxruntime", kind: str = "image") -> ModelManifest:
    """Return a model that classifies."""
    return ModelManifest(
        name=name,
        version="1.0.0",
        task="classification",
        framework=FrameworkNeed(name=framework),
        inputs=(Port(type=kind),),
        outputs=(),
        model=Assets(graph_path="m.onnx"),
    )


async def test_models_of_the_same_task_and_input_are_offered_beside_it(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    others = (model("second"), model("sound", kind="audio"), model("jaxed", "jax"))
    standing.models = (model("first"), *others)
    standing.agents = (an_agent(),)
    page = (await web.get("/try?model=first")).text
    assert 'accept="image/*"' in page
    assert '<option value="second">' in page
    for name in ("first", "sound", "jaxed"):
        assert f'<option value="{name}">' not in page
    assert "mlscope predict first FILE" in page
    assert "Only you and owners see your files and the answers." in page
    assert (await web.get("/try?model=none")).status_code == 404
    assert (await web.get("/try")).headers["location"] == "/models"


async def test_own_files_are_private_unless_asked_otherwise(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    async def reply(asked: ReceivedCommand) -> bytes:
        evaluation = decode_body(ShowPredictions, asked.body).evaluation
        return encode_body(Predictions(evaluation=evaluation))

    await standing.bus.answer(f"{REQUEST}.predictions", reply, queue="predictions")
    standing.models = (model("first"),)
    standing.then = lambda evaluation: ending(evaluation)
    body = {"model": "first", "files": {"one": TEXT}}
    visibilities = []
    for chosen in ({}, {"visibility": ""}, {"visibility": "cluster"}):
        await web.post("/api/predict", json={**body, **chosen})
        status = (await web.get(f"/api/evaluations/{standing.requested[-1]}")).json()
        visibilities.append(status["visibility"])
    assert visibilities == ["private", "private", "cluster"]
    refused = await web.post("/api/predict", json={**body, "visibility": "secret"})
    assert (refused.status_code, refused.json()["field"]) == (400, "visibility")


async def test_an_answer_names_its_file_and_its_evaluation(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    async def reply(asked: ReceivedCommand) -> bytes:
        evaluation = decode_body(ShowPredictions, asked.body).evaluation
        cat = {"label": "cat", "probability": 0.9}
        prediction = Prediction(run="r0", query=0, sample=0, features=(cat,))
        return encode_body(Predictions(evaluation=evaluation, predictions=(prediction,), total=1))

    await standing.bus.answer(f"{REQUEST}.predictions", reply, queue="predictions")
    standing.then = lambda evaluation: ending(evaluation)
    body = {"model": "tiny", "files": {"one": TEXT, "empty": ""}}
    answer = (await web.post("/api/predict", json=body)).json()
    first, empty = answer["predictions"]
    assert (first["file"], first["error"]) == ("one", "")
    assert (first["answers"][0]["answer"], first["answers"][0]["probability"]) == ("cat", 0.9)
    assert len(first["evaluation"]) == 16
    assert empty["error"] == "the file is empty"


async def test_samples_and_addresses_go_to_the_agent(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    photo = Sample(path="photos/cat.jpg", sha256="a" * 64, labels=("cat",))
    standing.catalog = {"datasets": (DatasetManifest(name="photos", samples=(photo,)),)}
    standing.models = (model("first"),)
    page = (await web.get("/try?model=first")).text
    assert "photos: cat.jpg (cat)" in page
    samples = {
        "cat": {"dataset": "photos", "sample": 0},
        "web": {"address": "https://example.org/dog.jpg"},
    }

    async def reply(asked: ReceivedCommand) -> bytes:
        evaluation = decode_body(ShowPredictions, asked.body).evaluation
        return encode_body(Predictions(evaluation=evaluation))

    await standing.bus.answer(f"{REQUEST}.predictions", reply, queue="predictions")
    standing.then = lambda evaluation: ending(evaluation)
    answer = await web.post("/api/predict", json={"model": "first", "samples": samples})
    assert [one["file"] for one in answer.json()["predictions"]] == ["cat", "web"]
    sent = {}
    for evaluation in standing.requested:
        fact = (await standing.bus.read(story_of(evaluation)))[0].fact
        assert isinstance(fact, EvaluationRequested)
        assert fact.request is not None
        assert isinstance(fact.request.dataset, DatasetManifest)
        (sample,) = fact.request.dataset.samples
        sent[sample.path] = sample.sha256
    # Each address is an evaluation of its own: a bad one takes no other with it.
    assert sent == {"photos/cat.jpg": "a" * 64, "https://example.org/dog.jpg": ""}
    outside = {"cat": {"dataset": "photos:1.0.0", "sample": 1}}
    refused = await web.post("/api/predict", json={"model": "first", "samples": outside})
    assert refused.json()["field"] == "samples.cat.sample"


async def test_bad_files_are_refused_by_name(web: httpx.AsyncClient) -> None:
    many = {str(number): TEXT for number in range(MOST_FILES + 1)}
    bodies: tuple[tuple[dict[str, object], str], ...] = (
        ({"model": "tiny"}, "files"),
        ({"model": "tiny", "files": many}, "files"),
        ({"model": "tiny", "files": {"a": "no base64!"}}, "files.a"),
        ({"model": "tiny", "files": {"a": 1}}, "files.a"),
        ({"modle": "tiny", "files": {"a": TEXT}}, "modle"),
        ({"model": "tiny", "samples": ["a"]}, "samples"),
        ({"model": "tiny", "files": {"a": TEXT}, "samples": {"a": {}}}, "samples"),
        ({"model": "tiny", "samples": {"a": {"adress": "x"}}}, "samples.a"),
        ({"model": "tiny", "samples": {"a": {"address": "http://h/f"}}}, "samples.a.address"),
        ({"model": "tiny", "samples": {"a": {"address": "file:/etc/passwd"}}}, "samples.a.address"),
        ({"model": "tiny", "samples": {"a": {"dataset": "none"}}}, "samples.a.dataset"),
    )
    for body, field in bodies:
        refused = await web.post("/api/predict", json=body)
        assert (refused.status_code, refused.json()["field"]) == (400, field)
