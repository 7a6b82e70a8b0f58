"""ctc: scores by moment to text."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters

Feature = dict[str, Any]


def ctc(parameters: Parameters) -> Callable[[npt.NDArray[Any]], list[list[Feature]]]:
    """Return (batch, time, classes) -> for each sample its text, decoded greedily.

    The best class of each moment, repeats once, without `blank` (Graves et al. 2006, section 3.2).
    `data_layout` TNC has time first. `labels` names the alphabet's file, one symbol a line, in
    the classes' order; with `blank` 0 and one symbol less than classes it lacks the blank.
    `space` is the symbol that stands for one, as |. The feature is `{"type": "text", "text",
    "probability"}`, the mean of the best values of the moments that became text.
    """
    alphabet = parameters.labels(("labels", "labels_url"))
    blank = parameters.whole("blank", default=0, least=0)
    time_first = parameters.choice("data_layout", ("NTC", "TNC"), "NTC") == "TNC"
    space = parameters.letters("space", "|")
    if not alphabet:
        raise BadParameter("ctc", "labels", "", "the name of the alphabet's file")

    def apply(values: npt.NDArray[Any]) -> list[list[Feature]]:
        rows = values.transpose(1, 0, 2) if time_first else values
        lacks_blank = len(alphabet) + 1 == rows.shape[2] and blank == 0
        symbols = ("", *alphabet) if lacks_blank else alphabet
        return [[_decoded(row, symbols, blank, space)] for row in rows]

    return apply


def _decoded(row: npt.NDArray[Any], symbols: tuple[str, ...], blank: int, space: str) -> Feature:
    best = row.argmax(axis=1)
    new = np.concatenate(([True], best[1:] != best[:-1])) & (best != blank)
    places = np.flatnonzero(new)
    read = [symbols[index] if index < len(symbols) else "" for index in best[places]]
    text = "".join(" " if each == space else each for each in read).strip()
    certain = float(row[places, best[places]].mean()) if len(places) else 0.0
    return {"type": "text", "text": text, "probability": certain}
