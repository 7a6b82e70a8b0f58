"""Predictions: those of an evaluation, the likeness of two, and files handed to an agent.

Files travel in the request itself, as an evaluation of their own: no timing is asked for, one query
a file. What an agent does with them is what it does with any sample, so a file that is no good
fails alone.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask_for, command_of
from schemas.analysis import Compared, Prediction, Predictions
from schemas.request import Compare, ShowPredictions
from schemas.status import EvaluationStatus

_ANSWER_S = 60.0

ONLY = "x"
"""What an array is called that has no name: it is the model's one input."""

MOST_FILES = 64
"""Files of one evaluation; more are several."""

MOST_INLINE_BYTES = 2_500_000
"""Bytes of the files of one evaluation: a request of 4 MiB holds them as base64."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What was answered to one file: features, best first, or why there are none."""

    file: str
    features: tuple[dict[str, Any], ...] = ()
    error: str = ""
    #: where the whole story is
    evaluation: str = ""


async def predictions_of(bus: Bus, evaluation: str, run: str = "", most: int = 0) -> Predictions:
    """Return an evaluation's predictions, however many answers that takes; `most` 0 is all.

    Raises CommandRefused, NotAnswering, Denied.
    """
    fields = {"evaluation": evaluation, "run": run}
    first = await _page(bus, fields, most)
    found: list[Prediction] = list(first.predictions)
    wanted = min(first.total, most) if most else first.total
    while len(found) < wanted:
        page = await _page(bus, {**fields, "offset": len(found)}, wanted - len(found))
        if not page.predictions:
            break
        found += page.predictions
    return first.model_copy(update={"predictions": tuple(found)})


async def _page(bus: Bus, fields: Mapping[str, Any], limit: int) -> Predictions:
    command = command_of(ShowPredictions, {**fields, "limit": limit})
    return await ask_for(bus, command, Predictions, timeout_s=_ANSWER_S)


async def comparison_of(bus: Bus, first: str, second: str) -> Compared:
    """Return how far two evaluations' answers are apart; each is `ID` or `ID/RUN`.

    Raises CommandRefused for what is not alike, NotAnswering, Denied.
    """
    (one, one_run), (other, other_run) = (_place(each) for each in (first, second))
    runs = {"first_run": one_run, "second_run": other_run}
    command = command_of(Compare, {"first": one, "second": other, **runs})
    return await ask_for(bus, command, Compared, timeout_s=_ANSWER_S)


async def figures_of(bus: Bus, evaluations: Sequence[str], **terms: Any) -> Compared:
    """Return the figures of two or more evaluations side by side.

    `terms` are further fields of `Compare`: prices, most_latency_ns, most_cost, least_accuracy.
    Raises CommandRefused, NotAnswering, Denied.
    """
    fields = dict(zip(("first", "second"), evaluations, strict=False))
    command = command_of(
        Compare, {**fields, "others": tuple(evaluations[2:]), "figures": True, **terms}
    )
    return await ask_for(bus, command, Compared, timeout_s=_ANSWER_S)


def _place(text: str) -> tuple[str, str]:
    evaluation, _, run = text.partition("/")
    return evaluation, run


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
        each if isinstance(each, Upload) else Upload(str(each), Path(each).read_bytes())
        for each in files
    ]


def requests_of(
    uploads: Sequence[Upload], fields: Mapping[str, Any]
) -> Iterator[tuple[Sequence[Upload], dict[str, Any]]]:
    """Yield the requests that predict files, each with the files it carries.

    `fields` are further ones of `Evaluate`; a file without bytes is in none.
    """
    for some in _shared_out([each for each in uploads if each.body or each.address]):
        queries = {"name": "online", "parameters": {"queries": len(some)}}
        yield (
            some,
            {
                "trace_level": "none",
                "warmup": 0,
                "pacing": "local",
                **fields,
                "batch_sizes": [1],
                "scenarios": [queries],
                "outputs": len(some),
                "dataset": some[0].dataset() if some[0].tensors else _dataset_of(some),
            },
        )


def _dataset_of(uploads: Sequence[Upload]) -> dict[str, Any]:
    return {
        "kind": "dataset",
        "name": "uploads",
        "description": "Files handed in to be predicted.",
        "samples": [each.sample() for each in uploads],
    }


def _shared_out(uploads: Sequence[Upload]) -> Iterator[list[Upload]]:
    some: list[Upload] = []
    size = 0
    for each in uploads:
        if each.tensors:
            yield [each]
            continue
        if some and (len(some) == MOST_FILES or size + len(each.body) > MOST_INLINE_BYTES):
            yield some
            some, size = [], 0
        some.append(each)
        size += len(each.body)
    if some:
        yield some


def matched(
    uploads: Sequence[Upload], status: EvaluationStatus, found: Predictions | None
) -> list[Predicted]:
    """Return what was answered to each file of an evaluation that ended."""
    cause = next((run.cause for run in status.runs if run.cause), status.cause)
    features = {each.sample: each.features for each in found.predictions} if found else {}
    # A query carries one file, in their order.
    errors = {each.query: each.error for each in found.failed} if found else {}
    return [
        Predicted(each.name, features[place], evaluation=status.evaluation)
        if place in features
        else Predicted(
            each.name,
            error=_own_words(errors.get(place, "")) or cause or "no answer came",
            evaluation=status.evaluation,
        )
        for place, each in enumerate(uploads)
    ]


def _own_words(error: str) -> str:
    """Return a query's error without the number of its one sample."""
    head, colon, rest = error.partition(": ")
    return rest if colon and head.startswith("sample ") else error
