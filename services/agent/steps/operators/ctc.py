"""ctc: scores at each time step to text."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters

Feature = dict[str, Any]


def ctc(parameters: Parameters) -> Callable[[npt.NDArray[Any]], list[list[Feature]]]:
    """Return (batch, time, classes) -> for each sample its text, decoded greedily.

    The text is the best class of each time step, with repeats merged and without `blank` (Graves et
    al. 2006, section 3.2). `data_layout` TNC has time first. `labels` names the alphabet's file,
    one symbol a line, in the order of the classes; with `blank` 0 and one symbol fewer than classes
    the file lacks the blank. `space` is the symbol that stands for a space, such as |. The feature
    is `{"type": "text", "text", "probability"}`; its probability is the mean of the best values at
    the time steps that became text.
    """
    alphabet = parameters.labels(("labels", "labels_url"))
    blank = parameters.integer("blank", default=0, minimum=0)
    time_first = parameters.choice("data_layout", ("NTC", "TNC"), "NTC") == "TNC"
    space = parameters.text("space", "|")
    if not alphabet:
        raise BadParameter("ctc", "labels", "", "the name of the alphabet's file")

    def apply(values: npt.NDArray[Any]) -> list[list[Feature]]:
        rows = values.transpose(1, 0, 2) if time_first else values
        lacks_blank = len(alphabet) + 1 == rows.shape[2] and blank == 0
        symbols = ("", *alphabet) if lacks_blank else alphabet
        return [[decoded(row, symbols)] for row in rows]

    def decoded(row: npt.NDArray[Any], symbols: tuple[str, ...]) -> Feature:
        best = row.argmax(axis=1)
        is_new = np.concatenate(([True], best[1:] != best[:-1])) & (best != blank)
        steps = np.flatnonzero(is_new)
        read = [symbols[index] if index < len(symbols) else "" for index in best[steps]]
        text = "".join(" " if symbol == space else symbol for symbol in read).strip()
        probability = float(row[steps, best[steps]].mean()) if len(steps) else 0.0
        return {"type": "text", "text": text, "probability": probability}

    return apply
