"""Ids of evaluations by their first digits, as people copy them."""

import re

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask_for
from mlscope.client.errors import CommandRefused
from schemas.request import ListEvaluations, Refused
from schemas.status import EvaluationList

LEAST_DIGITS = 4
_SHORT = re.compile(rf"[0-9a-f]{{{LEAST_DIGITS},15}}")
_MOST_SHOWN = 5
_MOST_LISTED = 1000


async def whole_id(bus: Bus, text: str) -> str:
    """Return the id of the evaluation that begins with `text`, asked over `bus`.

    A whole id is returned at once, and so is a text that no evaluation begins with. Raises
    CommandRefused where several do.
    """
    if not _SHORT.fullmatch(text):
        return text
    listing = ListEvaluations(search=text, limit=_MOST_LISTED, predictions=True)
    listed = await ask_for(bus, listing, EvaluationList)
    ids = [own.evaluation for own in listed.evaluations if own.evaluation.startswith(text)]
    if len(ids) < 2 or text in ids:
        return ids[0] if len(ids) == 1 else text
    shown = ", ".join(ids[:_MOST_SHOWN])
    message = f"{len(ids)} evaluations begin with {text}, the newest: {shown}"
    refused = Refused(error="unknown", message=message, field="evaluation", found=text)
    raise CommandRefused(refused)


async def whole_place(bus: Bus, text: str) -> str:
    """Return `ID` or `ID/RUN` with a whole id. `bus` is asked; raises as `whole_id`."""
    evaluation, slash, run = text.partition("/")
    return f"{await whole_id(bus, evaluation)}{slash}{run}"
