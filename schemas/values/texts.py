"""Texts and maps as commands may have them: each has a bound, so that checking one takes little."""

from typing import Annotated

from pydantic import Field

from schemas.values.json_values import JsonObject

MOST_CHARACTERS = 512
"""Of a name, also with a constraint behind it (`name:>=1 <2`): those take 128 and 256 at most."""
MOST_NOTE_CHARACTERS = 10_000
MOST_ENTRIES = 1000
"""Labels of a request, parameters of a scenario, options of a predictor."""

ShortText = Annotated[str, Field(max_length=MOST_CHARACTERS)]
"""A name, an image, a constraint, or a name with a constraint."""

Note = Annotated[str, Field(max_length=MOST_NOTE_CHARACTERS)]
"""What somebody wrote for people to read."""

Labels = Annotated[dict[ShortText, Note], Field(max_length=MOST_ENTRIES)]
"""Labels by name."""

Entries = Annotated[JsonObject, Field(max_length=MOST_ENTRIES)]
"""Free-form values by name."""
