"""Refusals: what the analyzer answers where it has no result."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from mlscope.bus.errors import BusError
from schemas.encoding.errors import MalformedMessage
from schemas.evaluation import EvaluationAnalyzed
from schemas.message import Fact
from schemas.request import Refused
from services.analyzer.errors import DatabaseAway, NoSuchRun, NoSuchSpan, NotAlike

T = TypeVar("T")


def no_tables(evaluation: str, decisions: Sequence[Fact]) -> Refused:
    """Return why the database has no tables of an `evaluation` of which the log has `decisions`.

    The log remembers what was analyzed. If the database does not, it is not the one it was. Of an
    evaluation that nobody requested the log has nothing.
    """
    if any(isinstance(fact, EvaluationAnalyzed) for fact in decisions):
        return Refused(
            error="unavailable",
            message=(
                f"evaluation {evaluation} was analyzed, but this database has none of its tables: "
                "the database lost its data or is another one; `mlscope rebuild FILE` brings back "
                "what the log and a backup have"
            ),
            field="evaluation",
            found=evaluation,
        )
    return Refused(
        error="unknown",
        message=f"evaluation {evaluation} has no tables yet"
        if decisions
        else f"no evaluation is called {evaluation}; `mlscope ls evaluations` lists them",
        field="evaluation",
        found=evaluation,
    )


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
