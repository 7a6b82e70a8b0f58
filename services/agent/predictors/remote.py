"""Remote servers of the Open Inference Protocol v2 over HTTP, such as MAX, Triton and KServe.

The model runs elsewhere; the server does not report its device, threads and precision. Tensors
travel as JSON, so large ones measure the network and the encoding. Only servers on this machine are
called, unless the agent's owner names others (`MLSCOPE_REMOTE_HOSTS`).
"""

import http.client
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from mlscope.tracing.propagation import NO_HEADERS, OUTGOING_REQUESTS
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

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_MAX_RESPONSE_BYTES = 1 << 30
_NOT_PROTOCOL = "the server does not follow the Open Inference Protocol"
_TYPES: Mapping[str, str] = {
    "BOOL": "bool",
    **{f"UINT{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
_WIRE_TYPES = {name: wire for wire, name in _TYPES.items()}


@dataclass(frozen=True, slots=True)
class Options:
    """The server and the model on it."""

    url: str
    model: str
    #: '' lets the server choose
    model_version: str
    timeout_s: int


class Refused(PredictFailed):
    """A server returned an error, or a response that does not follow the protocol."""


def options_of(requested: Mapping[str, Any], model: str, hosts: tuple[str, ...]) -> Options:
    """Return the checked options; `requested` has those of a request by name.

    `model`: the model's name where the options do not name another; `hosts`: the servers that may
    be called. Raises BadOption.
    """
    check_known(requested, "remote")
    url = str(requested.get("url", ""))
    try:
        parts = urlsplit(url)
        fits = parts.scheme == "http" and parts.hostname in hosts and parts.port is not None
    except ValueError:
        fits = False
    if not fits:
        raise BadOption(
            "url", url, f"http://HOST:PORT, with a host that is allowed here: {', '.join(hosts)}"
        )
    return Options(
        url=url.rstrip("/"),
        model=str(requested.get("model", model)),
        model_version=str(requested.get("model_version", "")),
        timeout_s=count(requested, "timeout_s", 60),
    )


def open_model(request: OpenRequest) -> "RemotePredictor":
    """Connect to a model on a server. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    if request.device not in ("", "cpu", "remote"):
        raise BadOption("device", request.device, "cpu or remote: the server chooses its device")
    hosts = (*_LOCAL_HOSTS, *request.remote_hosts)
    options = options_of(request.options, request.model.name, hosts)
    opening = Opening(request)
    server = Server(options)
    try:
        server.request("GET", "/ready")
        predictor = RemotePredictor(request, options, server)
        opening.mark_loaded()
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
        """Read the model's metadata from the `server` that the `options` of a `request` name.

        Raises Refused, BatchSizeUnsupported.
        """
        self._server = server
        metadata = server.request("GET", "")
        software = server.software()
        try:
            inputs = tuple(_place(tensor) for tensor in metadata["inputs"])
            outputs = tuple(_place(tensor) for tensor in metadata["outputs"])
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{_NOT_PROTOCOL}: {first_line(error)}") from error
        self.opened = Opened(
            framework="remote",
            framework_version=software,
            inputs=inputs,
            outputs=outputs,
            device="remote",
            provider=str(metadata.get("platform", "")),
            precision="unknown",
            threads=0,
            options=asdict(options),
            deepest_level=Level.MODEL,
        )
        for place in self.opened.inputs:
            if place.shape and place.shape[0] not in (-1, request.batch_size):
                raise BatchSizeUnsupported(request.batch_size, place.name, place.shape)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        try:
            tensors = [
                {
                    "name": name,
                    "shape": list(array.shape),
                    "datatype": _WIRE_TYPES[array.dtype.name],
                    "data": array.ravel().tolist(),
                }
                for name, array in inputs.items()
            ]
            with OUTGOING_REQUESTS.request() as headers:
                response = self._server.request("POST", "/infer", {"inputs": tensors}, headers)
            return {
                tensor["name"]: np.array(tensor["data"], _TYPES[tensor["datatype"]]).reshape(
                    tensor["shape"]
                )
                for tensor in response["outputs"]
            }
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{_NOT_PROTOCOL}: {first_line(error)}") from error

    def close(self) -> None:
        """Close the connection."""
        self._server.close()


class Server:
    """A connection to a server's model, reused for all requests."""

    def __init__(self, options: Options) -> None:
        parts = urlsplit(options.url)
        self._http = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=options.timeout_s
        )
        self._root = f"{parts.path}/v2"
        self._model = f"{self._root}/models/{quote(options.model, safe='')}"
        if options.model_version:
            self._model += f"/versions/{quote(options.model_version, safe='')}"

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NO_HEADERS
    ) -> dict[str, Any]:
        """Return the JSON object that the server responds with.

        `method`: of HTTP; `path`: below the model's URL; `body`: sent as JSON; `headers`: added
        to the request's own. Raises Refused.
        """
        return self._request(method, self._model + path, body, headers)

    def software(self) -> str:
        """Return the server's name and version. Raises Refused."""
        metadata = self._request("GET", self._root, None)
        return f"{metadata.get('name', 'unknown')} {metadata.get('version', '')}".strip()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _request(
        self, method: str, path: str, body: Any, headers: Mapping[str, str] = NO_HEADERS
    ) -> dict[str, Any]:
        try:
            text = None if body is None else json.dumps(body)
            all_headers = {"Content-Type": "application/json", **headers}
            self._http.request(method, path, text, all_headers)
            with self._http.getresponse() as response:
                content = response.read(_MAX_RESPONSE_BYTES + 1)
            if len(content) > _MAX_RESPONSE_BYTES:
                raise Refused(f"{path}: a response of more than {_MAX_RESPONSE_BYTES} bytes")
            if response.status != http.client.OK:
                raise Refused(f"{path}: {response.status} {content[:300].decode(errors='replace')}")
            parsed = json.loads(content or b"{}")
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            self._http.close()  # the next request connects again
            raise Refused(f"{path}: {first_line(error)}") from error
        if not isinstance(parsed, dict):
            raise Refused(f"{path}: the response is not a JSON object")
        return parsed


def _place(tensor: Mapping[str, Any]) -> TensorPlace:
    shape = tuple(int(size) for size in tensor["shape"])
    return TensorPlace(str(tensor["name"]), shape, _TYPES[tensor["datatype"]])
