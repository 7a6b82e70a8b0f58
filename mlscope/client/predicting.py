"""Predictions: those of an evaluation, the likeness of two, and files handed to an agent.

Files travel in the request itself, as an evaluation of their own: no timing is asked for, one query
a file. What an agent does with them is what it does with any sample, so a file that is no good
fails alone.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask_for, command_of
from mlscope.client.errors import EvaluationRefused
from mlscope.client.prices import with_kept_prices
from schemas.analysis import Compared, Prediction, Predictions
from schemas.exploration import Explore, Explored
from schemas.request import PREDICT, PURPOSE, Compare, Refused, ShowPredictions
from schemas.status import EvaluationStatus

_ANSWER_S = 60.0

ONLY = "x"
"""What an array is called that has no name: it is the model's one input."""

MOST_FILES = 64
"""Files of one evaluation; more are several."""

MOST_INLINE_BYTES = 2_500_000
"""Bytes of the files of one evaluation: a request of 4 MiB holds them as base64."""

_OF_SAMPLE = re.compile(r"\Asample .*?: ", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Predicted:
    """What was answered to one file: features, best first, or why there are none."""

    file: str
    features: tuple[dict[str, Any], ...] = ()
    error: str = ""
    #: where the whole story is
    evaluation: str = ""


async def predictions_of(bus: Bus, evaluation: str, run: str = "", limit: int = 0) -> Predictions:
    """Ask over `bus` for the predictions of `evaluation`, however many answers that takes.

    They are those of one `run` ('': all); `limit` bounds their number, 0 is all. Raises
    CommandRefused, NotAnswering, Denied.
    """
    fields = {"evaluation": evaluation, "run": run}
    first = await _page(bus, fields, limit)
    predictions: list[Prediction] = list(first.predictions)
    count = min(first.total, limit) if limit else first.total
    while len(predictions) < count:
        page = await _page(bus, {**fields, "offset": len(predictions)}, count - len(predictions))
        if not page.predictions:
            break
        predictions += page.predictions
    return first.model_copy(update={"predictions": tuple(predictions)})


async def _page(bus: Bus, fields: Mapping[str, Any], limit: int) -> Predictions:
    command = command_of(ShowPredictions, {**fields, "limit": limit})
    return await ask_for(bus, command, Predictions, timeout_s=_ANSWER_S)


async def comparison_of(bus: Bus, first: str, second: str) -> Compared:
    """Ask over `bus` how far the answers of the evaluations `first` and `second` are apart.

    Each is `ID` or `ID/RUN`. Raises CommandRefused for what is not alike, NotAnswering, Denied.
    """
    fields: dict[str, str] = {}
    for name, text in (("first", first), ("second", second)):
        fields[name], _, fields[f"{name}_run"] = text.partition("/")
    command = command_of(Compare, fields)
    return await ask_for(bus, command, Compared, timeout_s=_ANSWER_S)


async def figures_of(bus: Bus, evaluations: Sequence[str], **terms: Any) -> Compared:
    """Return the figures of two or more evaluations side by side.

    `terms` are further fields of `Compare`: prices (of other agents the kept ones count),
    most_latency_ns, most_cost, least_accuracy. Raises CommandRefused, NotAnswering, Denied.
    """
    fields = dict(zip(("first", "second"), evaluations, strict=False))
    command = command_of(
        Compare, {**fields, "others": tuple(evaluations[2:]), "figures": True, **terms}
    )
    command = await with_kept_prices(bus, command)
    return await ask_for(bus, command, Compared, timeout_s=_ANSWER_S)


async def exploration_of(bus: Bus, table: str, **constraints: Any) -> Explored:
    """Return an exploration of many evaluations; without a `table` what there is to choose from.

    `constraints` are further fields of `Explore`; agents whose price it does not name have their
    stored one. Raises CommandRefused, NotAnswering, Denied.
    """
    command = command_of(Explore, {"table": table, **constraints})
    if table == "cost":
        command = await with_kept_prices(bus, command)
    return await ask_for(bus, command, Explored, timeout_s=_ANSWER_S)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to predict: its name, and its bytes or where an artifact holds them."""

    name: str
    body: bytes = b""
    #: as `artifact://NAME`, with its checksum
    address: str = ""
    sha256: str = ""
    #: the inputs that an .npz at the address holds, each with a first dimension of 1; '' is the one
    tensors: tuple[str, ...] = ()

    def dataset(self) -> dict[str, Any]:
        """Return the tensors of an .npz as a dataset of one sample."""
        options = {"inputs": {name: name for name in self.tensors}}
        source = {
            "address": self.address,
            "checksum": self.sha256,
            "reader": "npz",
            "samples": 1,
            "options": options if self.tensors != (ONLY,) else {"samples": ONLY},
        }
        return {"kind": "dataset", "name": "uploads", "source": source}

    def sample(self) -> dict[str, Any]:
        """Return the file as a sample of a dataset."""
        if self.address:
            return {"path": self.address, "sha256": self.sha256}
        return {"content": base64.b64encode(self.body).decode("ascii")}


Files = Mapping[str, bytes] | Sequence[str | Path | Upload]
"""Bytes by name, or paths; or uploads, made already."""


def files_as_uploads(files: Files) -> list[Upload]:
    """Return files as they are sent; raises OSError for a path that can't be read."""
    if isinstance(files, Mapping):
        return [Upload(name, body) for name, body in files.items()]
    return [
        file if isinstance(file, Upload) else Upload(str(file), Path(file).read_bytes())
        for file in files
    ]


def requests_of(
    uploads: Sequence[Upload], fields: Mapping[str, Any]
) -> Iterator[tuple[Sequence[Upload], dict[str, Any]]]:
    """Yield the requests that predict files, each with the files it carries.

    `fields` are further ones of `Evaluate`; a file without bytes is in none. The requests hold the
    files, so they are private unless `fields` has another `visibility`. Raises EvaluationRefused
    for a label `purpose`, which distinguishes predictions from measurements.
    """
    labels = dict(fields.get("labels", {}))
    if labels.setdefault(PURPOSE, PREDICT) != PREDICT:
        raise EvaluationRefused(
            Refused(
                error="invalid",
                message=f"the label {PURPOSE} of a prediction is {PREDICT}; give yours another key",
                field=f"labels.{PURPOSE}",
                found=labels[PURPOSE],
                allowed=PREDICT,
            )
        )
    for some in _shared_out([upload for upload in uploads if upload.body or upload.address]):
        queries = {"name": "online", "parameters": {"queries": len(some)}}
        dataset = (
            some[0].dataset()
            if some[0].tensors
            else {
                "kind": "dataset",
                "name": "uploads",
                "description": "Files handed in to be predicted.",
                "samples": [upload.sample() for upload in some],
            }
        )
        yield (
            some,
            {
                "trace_level": "none",
                "warmup": 0,
                "pacing": "local",
                "visibility": "private",
                **fields,
                "batch_sizes": [1],
                "scenarios": [queries],
                "outputs": len(some),
                "dataset": dataset,
                "labels": labels,
            },
        )


def _shared_out(uploads: Sequence[Upload]) -> Iterator[list[Upload]]:
    some: list[Upload] = []
    size = 0
    for upload in uploads:
        if upload.tensors:
            yield [upload]
            continue
        if some and (len(some) == MOST_FILES or size + len(upload.body) > MOST_INLINE_BYTES):
            yield some
            some, size = [], 0
        some.append(upload)
        size += len(upload.body)
    if some:
        yield some


def matched(
    uploads: Sequence[Upload], status: EvaluationStatus, predictions: Predictions | None
) -> list[Predicted]:
    """Return what was answered to each file of an evaluation that ended.

    `uploads` are the files, `status` is the evaluation's; `predictions` are its answers, None where
    there are none. A file without an answer has its query's error, or else the evaluation's cause.
    """
    cause = next((run.cause for run in status.runs if run.cause), status.cause)
    answers = predictions or Predictions(evaluation=status.evaluation)
    features = {answer.sample: answer.features for answer in answers.predictions}
    # A query carries one file, in their order: the number of its one sample says nothing.
    errors = {failure.query: _OF_SAMPLE.sub("", failure.error) for failure in answers.failed}
    return [
        Predicted(upload.name, features[place], evaluation=status.evaluation)
        if place in features
        else Predicted(
            upload.name,
            error=errors.get(place) or cause or "no answer came",
            evaluation=status.evaluation,
        )
        for place, upload in enumerate(uploads)
    ]
