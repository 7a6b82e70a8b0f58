"""`mlscope agent`: a plan run on this machine alone, its facts written to a bundle."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from cli import exits
from cli.commands import container
from cli.failures import Misused
from cli.request import manifest_in
from mlscope.counts import many
from mlscope.settings import Settings
from schemas.batch import QueriesAnswered
from schemas.codec import parse
from schemas.errors import MalformedMessage
from schemas.evaluation import RunStarted
from schemas.message import Fact
from schemas.plan import OfflinePlan
from schemas.run import RunCompleted, RunFailed
from services.agent.allowances import Allowances
from services.agent.offline import Means, run_plan
from services.agent.roofs import FOLDER as ROOFS


def agent(arguments: argparse.Namespace) -> int:
    """Run every session of a plan; the exit code is 1 when a run of it failed.

    Or run an agent in the container that a framework's manifest gives.
    """
    if arguments.framework_manifest is not None:
        return container.start(arguments.framework_manifest, arguments.device)
    if arguments.out is None:
        raise Misused("--plan needs --out BUNDLE: what was measured goes there")
    plan = read_plan(arguments.plan)
    settings = Settings.read(os.environ)
    means = Means(
        manifests_folder=settings.manifests_folder,
        assets=settings,
        allowed=Allowances.of(settings),
        memory_bytes=settings.worker_memory_bytes,
        roofs_folder=settings.data_folder / ROOFS,
    )
    outcomes = run_plan(plan, arguments.out, means, told=_teller())
    failed = [each for each in outcomes if isinstance(each, RunFailed)]
    print(f"{arguments.out}  {many(len(outcomes), 'run')}, {len(failed)} failed")
    print(f"now where the cluster is: mlscope import {arguments.out}", file=sys.stderr)
    return exits.FAILED if failed else exits.OK


def read_plan(path: Path) -> OfflinePlan:
    """Return the plan in a JSON or YAML file. Raises Misused."""
    try:
        return parse(OfflinePlan, manifest_in(path))
    except MalformedMessage as error:
        raise Misused(f"{path}: {error}") from None


def _teller() -> Callable[[Fact], None]:
    """Return what says on stderr how each run goes."""
    answered: dict[str, int] = {}

    def told(fact: Fact) -> None:
        match fact:
            case QueriesAnswered():
                answered[fact.run] = answered.get(fact.run, 0) + fact.count
            case RunStarted():
                print(f"{fact.run} started", file=sys.stderr)
            case RunCompleted():
                print(f"{fact.run} completed, {answered.get(fact.run, 0)} queries", file=sys.stderr)
            case RunFailed():
                print(f"{fact.run} failed: {fact.error}: {fact.message}", file=sys.stderr)
            case _:
                return

    return told
