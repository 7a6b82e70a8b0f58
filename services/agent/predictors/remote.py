"""Remote servers that speak the Open Inference Protocol v2 over HTTP: MAX, Triton, KServe and kin.

The model runs elsewhere: device, threads and precision are the server's, which does not say them.
Tensors travel as JSON, so large ones measure the network and its text. Only servers on this
machine are called, unless the agent's owner names others (`MLSCOPE_REMOTE_HOSTS`).
"""

import http.client
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from mlscope.tracing.propagation import NO_HEADERS, OUTGOING
from schemas.level import Level
from services.agent.errors import (
    AgentError,
    BadOption,
    BatchSizeUnsupported,
    OpenFailed,
    PredictFailed,
)
from services.agent.predictors import Opened, OpenRequest, TensorPlace, Tensors
from services.agent.predictors.opening import Opening
from services.agent.predictors.options import check_known, count
from services.agent.predictors.shapes import first_line

_KNOWN = ("url", "model", "model_version", "timeout_s")
_HERE = ("localhost", "127.0.0.1", "::1")
_MOST_BYTES = 1 << 30
_BROKEN = (OSError, http.client.HTTPException, ValueError, KeyError, TypeError)
_TYPES: Mapping[str, str] = {
    "BOOL": "bool",
    **{f"UINT{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
_WIRE_TYPES = {name: wire for wire, name in _TYPES.items()}


@dataclass(frozen=True, slots=True)
class Options:
    """Which server and model are asked."""

    url: str
    model: str
    #: '' is the server's own choice
    model_version: str
    timeout_s: int


class Refused(PredictFailed):
    """A server answered with an error, or with something that is no answer."""


def options_of(given: Mapping[str, Any], model: str, hosts: tuple[str, ...]) -> Options:
    """Return the options of a request; `hosts` may be called. Raises BadOption."""
    check_known(given, _KNOWN)
    url = str(given.get("url", ""))
    try:
        parts = urlsplit(url)
        fits = parts.scheme == "http" and parts.hostname in hosts and parts.port is not None
    except ValueError:
        fits = False
    if not fits:
        raise BadOption("url", url, f"http://HOST:PORT of a host allowed here: {', '.join(hosts)}")
    return Options(
        url=url.rstrip("/"),
        model=str(given.get("model", model)),
        model_version=str(given.get("model_version", "")),
        timeout_s=count(given, "timeout_s", 60),
    )


def open_model(request: OpenRequest) -> "RemotePredictor":
    """Ask a server for a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    if request.device not in ("", "cpu", "remote"):
        raise BadOption("device", request.device, "cpu or remote: the server chooses its own")
    hosts = (*_HERE, *request.remote_hosts)
    options = options_of(request.options, request.model.name, hosts)
    opening = Opening(request)
    server = Server(options)
    try:
        server.ask("GET", "/ready")
        predictor = RemotePredictor(request, options, server)
        opening.loaded()
        opening.run_first(predictor)
    except AgentError as error:
        server.close()
        if isinstance(error, PredictFailed):
            raise OpenFailed(request.model.name, error.reason) from error
        raise
    return predictor


class RemotePredictor:
    """A model on a server."""

    def __init__(self, request: OpenRequest, options: Options, server: "Server") -> None:
        self._options = options
        self._server = server
        self._told = server.ask("GET", "")
        self._software = server.software()
        self.opened = self._opened()
        for place in self.opened.inputs:
            if place.shape and place.shape[0] not in (-1, request.batch_size):
                raise BatchSizeUnsupported(request.batch_size, place.name, place.shape)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        try:
            body = {"inputs": [_written(name, array) for name, array in inputs.items()]}
            with OUTGOING.request() as headers:
                answer = self._server.ask("POST", "/infer", body, headers)
            return {each["name"]: _read(each) for each in answer["outputs"]}
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"no Open Inference Protocol: {first_line(error)}") from error

    def close(self) -> None:
        """Hang up."""
        self._server.close()

    def _opened(self) -> Opened:
        try:
            inputs, outputs = (
                tuple(_place(each) for each in self._told[side]) for side in ("inputs", "outputs")
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"no Open Inference Protocol: {first_line(error)}") from error
        return Opened(
            framework="remote",
            framework_version=self._software,
            inputs=inputs,
            outputs=outputs,
            device="remote",
            provider=str(self._told.get("platform", "")),
            precision="unknown",
            threads=0,
            options=asdict(self._options),
            deepest_level=Level.MODEL,
        )


class Server:
    """One kept connection to a server's model."""

    def __init__(self, options: Options) -> None:
        parts = urlsplit(options.url)
        self._http = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=options.timeout_s
        )
        self._root = f"{parts.path}/v2"
        self._model = f"{self._root}/models/{quote(options.model, safe='')}"
        if options.model_version:
            self._model += f"/versions/{quote(options.model_version, safe='')}"

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NO_HEADERS
    ) -> dict[str, Any]:
        """Return the answer to a request about the model. Raises Refused."""
        return self._asked(method, self._model + path, body, headers)

    def software(self) -> str:
        """Return the server's name and version. Raises Refused."""
        told = self._asked("GET", self._root, None)
        return f"{told.get('name', 'unknown')} {told.get('version', '')}".strip()

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def _asked(
        self, method: str, path: str, body: Any, headers: Mapping[str, str] = NO_HEADERS
    ) -> dict[str, Any]:
        try:
            text = None if body is None else json.dumps(body)
            told = {"Content-Type": "application/json", **headers}
            self._http.request(method, path, text, told)
            with self._http.getresponse() as response:
                answer = response.read(_MOST_BYTES + 1)
            if len(answer) > _MOST_BYTES:
                raise Refused(f"{path}: an answer of more than {_MOST_BYTES} bytes")
            if response.status != http.client.OK:
                raise Refused(f"{path}: {response.status} {answer[:300].decode(errors='replace')}")
            found = json.loads(answer or b"{}")
        except _BROKEN as error:
            self._http.close()  # the next request connects anew
            raise Refused(f"{path}: {first_line(error)}") from error
        if not isinstance(found, dict):
            raise Refused(f"{path}: no JSON object")
        return found


def _place(told: Mapping[str, Any]) -> TensorPlace:
    shape = tuple(int(size) for size in told["shape"])
    return TensorPlace(str(told["name"]), shape, _TYPES[told["datatype"]])


def _written(name: str, array: Any) -> dict[str, Any]:
    return {
        "name": name,
        "shape": list(array.shape),
        "datatype": _WIRE_TYPES[array.dtype.name],
        "data": array.ravel().tolist(),
    }


def _read(told: Mapping[str, Any]) -> Any:
    return np.array(told["data"], _TYPES[told["datatype"]]).reshape(told["shape"])
