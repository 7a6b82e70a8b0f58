"""`mlscope agent`: runs a plan on this machine, or an agent in its framework's container."""

import argparse
import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from cli import container, exits
from cli.failures import Misused
from cli.inputs.manifests import read_map
from mlscope.counts import many
from mlscope.settings import Settings
from schemas.batch import QueriesAnswered
from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.evaluation import RunStarted
from schemas.message import Fact
from schemas.plan import OfflinePlan
from schemas.run import RunCompleted, RunFailed
from services.agent.host.offline import OfflineResources, run_plan
from services.agent.host.roofs.stored import FOLDER as ROOFS
from services.agent.link.allowances import Allowances
from services.agent.link.bounds import Bounds


def agent(arguments: argparse.Namespace) -> int:
    """Run every session of a plan and write a bundle; exit code 1 when a run failed.

    With `--framework-manifest` start an agent in that framework's container instead.
    """
    if arguments.framework_manifest is not None:
        return container.start(arguments.framework_manifest, arguments.device)
    if arguments.out is None:
        raise Misused("--plan needs --out BUNDLE, the file for what the plan measures")
    plan = read_plan(arguments.plan)
    settings = Settings.read(os.environ)
    resources = OfflineResources(
        manifests_folder=settings.manifests_folder,
        assets=settings,
        allowances=Allowances.of(settings),
        bounds=Bounds.of(settings),
        passed_variables=settings.worker_variables,
        roofs_folder=settings.data_folder / ROOFS,
    )
    print_progress = partial(_print_progress, Counter[str]())
    outcomes = run_plan(plan, arguments.out, resources, on_fact=print_progress)
    failed = sum(isinstance(outcome, RunFailed) for outcome in outcomes)
    print(f"{arguments.out}  {many(len(outcomes), 'run')}, {failed} failed")
    print(f"import it on the cluster's machine: mlscope import {arguments.out}", file=sys.stderr)
    return exits.FAILED if failed else exits.OK


def read_plan(path: Path) -> OfflinePlan:
    """Return the plan in a JSON or YAML file. Raises Misused."""
    try:
        return parse(OfflinePlan, read_map(path))
    except MalformedMessage as error:
        raise Misused(f"{path}: {error}") from None


def _print_progress(answered: Counter[str], fact: Fact) -> None:
    """Print the begin and the end of a run; `answered` counts the queries of each."""
    match fact:
        case QueriesAnswered():
            answered[fact.run] += fact.count
        case RunStarted():
            print(f"{fact.run} started", file=sys.stderr)
        case RunCompleted():
            print(f"{fact.run} completed, {answered[fact.run]} queries", file=sys.stderr)
        case RunFailed():
            print(f"{fact.run} failed: {fact.error}: {fact.message}", file=sys.stderr)
