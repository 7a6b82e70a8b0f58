"""One model opened in this process by the agent's own session, for one sample of its dataset."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.survey.measuring import AGENT, ALLOWED
from mlscope.settings import Settings
from schemas.batch import OutputsPredicted, QueriesAnswered
from schemas.level import Level
from schemas.plan import RunPlan, SessionPlan, Subject, WorkOrder
from schemas.request import Blocks
from schemas.run import RunFailed
from schemas.values.identity import new_evaluation_id
from services.agent.errors import AgentError
from services.agent.fetching.fetching import fetch_for_subject
from services.agent.link.batches import unpack_batch
from services.agent.link.messages import PerformOrder
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.session_opener import SessionOpener

RUN = "one"


def failure_of(subject: Subject) -> str:
    """Return why a `subject` does not open or answer; '' where it answers one sample."""
    settings = Settings.read(os.environ)
    batches: list[bytes] = []

    def take(body: bytes) -> bool:
        batches.append(body)
        return True

    try:
        files = asyncio.run(fetch_for_subject(subject, settings)).files
        with TemporaryDirectory(prefix="mlscope-") as folder:
            order = one_sample(subject)
            message = PerformOrder(order, settings.manifests_folder, files, ALLOWED)
            opener = SessionOpener(message, Path(folder))
            session = opener.open()
            try:
                group = Group(session, order, Control(), take, lambda _: None, opener)
                outcomes = list(group.perform())
            finally:
                session.close()
    except AgentError as error:
        return str(error)
    return _fault_in(outcomes, [unpack_batch(body) for body in batches])


def one_sample(subject: Subject) -> WorkOrder:
    """Return the order of one query of one sample, without warm-up."""
    run = RunPlan(
        run=RUN,
        group=0,
        scenario="online",
        parameters={"queries": 1},
        level=Level.MODEL,
        queries=1,
    )
    session = SessionPlan(session="b1", agent=AGENT, batch_size=1, runs=(run,))
    changes = {"warmup": 0, "outputs": 1, "blocks": Blocks(least=1, most=1)}
    return WorkOrder(
        evaluation=new_evaluation_id(),
        attempt=1,
        agent=AGENT,
        session=session,
        subject=subject.model_copy(update=changes),
        runs=(RUN,),
    )


def _fault_in(outcomes: Sequence[object], batches: Sequence[object]) -> str:
    """Return why a run of one sample has no answer; '' where it has one."""
    for outcome in outcomes:
        if isinstance(outcome, RunFailed):
            return outcome.message
    errors = [
        text for own in batches if isinstance(own, QueriesAnswered) for text in own.error_texts
    ]
    if errors:
        return errors[0]
    answers = sum(own.count for own in batches if isinstance(own, OutputsPredicted))
    return "" if answers else "no answer came"
