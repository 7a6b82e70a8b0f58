"""`mlscope agent`: a plan run on this machine alone, its facts written to a bundle."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from cli import exits
from cli.failures import Misused
from cli.request import manifest_in
from mlscope.settings import Settings
from schemas.batch import QueriesAnswered
from schemas.codec import parse
from schemas.errors import MalformedMessage
from schemas.evaluation import RunStarted
from schemas.message import Fact
from schemas.plan import OfflinePlan
from schemas.run import RunCompleted, RunFailed
from services.agent.offline import run_plan


def agent(arguments: argparse.Namespace) -> int:
    """Run every session of a plan; the exit code is 1 when a run of it failed."""
    plan = read_plan(arguments.plan)
    outcomes = run_plan(plan, arguments.out, told=_teller(), assets=Settings.read(os.environ))
    failed = [each for each in outcomes if isinstance(each, RunFailed)]
    print(f"{arguments.out}  {len(outcomes)} runs, {len(failed)} failed")
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
