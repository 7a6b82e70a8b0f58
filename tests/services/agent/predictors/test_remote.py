"""Remote models, on a small server of the Open Inference Protocol."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.manifest import ModelManifest
from services.agent.errors import BadOption, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import OpenRequest, predictor_named
from services.agent.predictors.remote import open_model


class Doubling(BaseHTTPRequestHandler):
    """A server whose models answer with twice what came."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Tell of the server and its models."""
        place = {"datatype": "FP32", "shape": [7 if "fixed" in self.path else -1, 3]}
        told = {
            "/v2": {"name": "doubler", "version": "2.1"},
            **{f"/v2/models/{m}/ready": {} for m in ("double", "fixed", "broken", "odd")},
            **{
                f"/v2/models/{m}": {
                    "platform": "numpy",
                    "inputs": [{"name": "x", **place}],
                    "outputs": [{"name": "y", **place}],
                }
                for m in ("double", "fixed", "broken")
            },
            "/v2/models/odd": {"inputs": 5},
        }
        self._answer(told.get(self.path))

    def do_POST(self) -> None:
        """Double the input, or hang up where that is negative."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (given,) = body["inputs"]
        if "broken" in self.path or given["shape"][1] != 3:
            return self._answer(None)
        if min(given["data"]) < -100:
            self.close_connection = True
            return None
        doubled = [2 * each for each in given["data"]]
        return self._answer({"outputs": [{**given, "name": "y", "data": doubled}]})

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, told: Any) -> None:
        body = json.dumps({"error": "no such luck"} if told is None else told).encode()
        self.send_response(400 if told is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Doubling) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def request(url: str, batch_size: int = 2, **options: Any) -> OpenRequest:
    model = ModelManifest.model_validate(
        {
            "name": "double",
            "version": "1.0.0",
            "framework": {"name": "remote"},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, 3]}],
            "outputs": [{"type": "raw", "layer_name": "y"}],
        }
    )
    return OpenRequest(model, Path(), b"", batch_size, options={"url": url, **options})


def batch(seed: int = 1) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((2, 3), np.float32)}


def test_the_servers_answers_are_handed_on(url: str) -> None:
    predictor = predictor_named("remote")(request(url))
    for seed in range(3):
        answer = predictor.predict(batch(seed))["y"]
        assert answer.dtype == np.float32
        assert np.array_equal(answer, 2 * batch(seed)["x"])
    predictor.close()


def test_what_the_server_says_of_itself_is_said(url: str) -> None:
    predictor = open_model(request(url))
    predictor.close()
    told = predictor.opened
    assert (told.framework_version, told.device, told.provider) == (
        "doubler 2.1",
        "remote",
        "numpy",
    )
    assert (told.inputs[0].name, told.inputs[0].shape) == ("x", (-1, 3))
    assert min(told.load_ns, told.first_run_ns) > 0


def test_an_error_of_the_server_is_told_and_the_next_call_is_right(url: str) -> None:
    predictor = open_model(request(url))
    with pytest.raises(PredictFailed, match="no such luck"):
        predictor.predict({"x": np.zeros((2, 4), np.float32)})
    with pytest.raises(PredictFailed):
        predictor.predict({"x": np.full((2, 3), -1000, np.float32)})
    assert np.array_equal(predictor.predict(batch())["y"], 2 * batch()["x"])
    predictor.close()


@pytest.mark.parametrize("model", ["none", "broken", "odd"])
def test_a_model_that_will_not_do_is_refused(url: str, model: str) -> None:
    with pytest.raises(OpenFailed, match=r"no such luck|Open Inference"):
        open_model(request(url, model=model))


def test_a_batch_the_model_cannot_take_is_refused(url: str) -> None:
    with pytest.raises(BatchSizeUnsupported):
        open_model(request(url, model="fixed"))


def test_where_nobody_listens_nothing_opens() -> None:
    with pytest.raises(OpenFailed, match="double"):
        open_model(request("http://127.0.0.1:9"))


@pytest.mark.parametrize(
    "url", ["", "file:///x", "http://example.org:80", "http://127.0.0.1", "http://[x:1"]
)
def test_only_allowed_servers_are_called(url: str) -> None:
    with pytest.raises(BadOption, match="url"):
        open_model(request(url))


def test_the_owner_allows_further_servers() -> None:
    wanted = request("http://server.invalid:80")
    with pytest.raises(BadOption, match="allowed here: localhost"):
        open_model(wanted)
    with pytest.raises(OpenFailed):
        open_model(replace(wanted, remote_hosts=("server.invalid",)))


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"threads": 1}])
def test_a_wrong_option_is_named(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(iter(options))):
        open_model(request(url, **options))
