"""Refusals: what the analyzer answers where it has no result."""

from collections.abc import Awaitable
from typing import TypeVar

from mlscope.bus.errors import BusError
from schemas.encoding.errors import MalformedMessage
from schemas.request import Refused
from services.analyzer.errors import DatabaseAway, NoSuchRun, NoSuchSpan, NotAlike

T = TypeVar("T")


async def answer_or_refusal(answer: Awaitable[T]) -> T | Refused:
    """Return an answer, or the refusal that gives the reason why there is none."""
    try:
        return await answer
    except MalformedMessage as error:
        return Refused(error="malformed", message=str(error), field=error.field, found=error.found)
    except NoSuchRun as error:
        return Refused(
            error="unknown",
            message=str(error),
            field="run" if error.run else "evaluation",
            found=error.run or error.evaluation,
        )
    except NoSuchSpan as error:
        return Refused(error="unknown", message=str(error), field="span", found=str(error.span))
    except NotAlike as error:
        return Refused(
            error="invalid", message=f"not comparable: {error.reason}", field=error.subject
        )
    except (DatabaseAway, BusError) as error:
        return Refused(error="unavailable", message=f"not available, try again later: {error}")
