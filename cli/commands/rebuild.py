"""`mlscope rebuild`: computes rows and tables again from the log, and replaces the old ones."""

import argparse
import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, field

from cli import exits
from cli.inputs.connection import collector_settings
from mlscope.backup.archive import Reader, reading
from mlscope.backup.database import check_database, load_database
from mlscope.backup.staging import Staging, staged
from mlscope.bus.bus import Bus
from mlscope.counts import many
from mlscope.settings import Settings
from schemas.analysis import AnalysisCompleted
from schemas.evaluation import EvaluationMeasured
from schemas.subjects import decisions_of, story_of
from schemas.values.identity import run_key

_MOST_NAMED = 5
_ROWS = ("batch", "span", "span_name", "query", "output", "run")
"""The tables of a backup whose rows are taken; what follows from them is computed again."""


@dataclass(slots=True)
class Outcome:
    """What was rebuilt, and what was not, by run key or evaluation.

    `rebuilt_runs`, `kept_runs` and `lost_runs` name the evaluation of each attempt. The database
    has more rows of a kept run than the log had; rows of a lost run are nowhere. `digests` says of
    each evaluation that was analyzed whether its tables are those that the log names; `failed` is
    the reason of each that was not.
    """

    rebuilt_runs: Mapping[int, str] = field(default_factory=dict)
    kept_runs: Mapping[int, str] = field(default_factory=dict)
    lost_runs: Mapping[int, str] = field(default_factory=dict)
    digests: dict[str, bool] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def keep(self, grown: Mapping[int, str]) -> None:
        """Count attempts that were not replaced since they have `grown`: their evaluations by key.

        The tables of their evaluations were not replaced, either.
        """
        self.kept_runs = {**self.kept_runs, **grown}
        self.rebuilt_runs = {
            key: name for key, name in self.rebuilt_runs.items() if key not in grown
        }
        for evaluation in grown.values():
            self.digests.pop(evaluation, None)

    def lines(self) -> Iterator[str]:
        """Yield the outcome in sentences."""
        yield f"rebuilt: {_runs(self.rebuilt_runs)}"
        if self.kept_runs:
            yield f"kept as they are: {_runs(self.kept_runs)}; the log had fewer of their rows"
        if self.lost_runs:
            yield f"lost: {_runs(self.lost_runs)}; neither log nor database has their rows"
        differing = [evaluation for evaluation, is_equal in self.digests.items() if not is_equal]
        equal = len(self.digests) - len(differing)
        yield f"tables of {many(len(self.digests), 'evaluation')}, {equal} with the log's digest"
        if differing:
            cause = "by another release, or of other rows"
            yield f"  other tables than the log names ({cause}): {_listed(differing)}"
        for evaluation, reason in sorted(self.failed.items()):
            yield f"  no tables of {evaluation}: {reason}"


async def rebuild(arguments: argparse.Namespace) -> int:
    """Compute rows and tables anew from the log, and from a backup if one is named."""
    from mlscope.bus.nats import connect
    from services.analyzer.store import migrate as migrate_analyzer
    from services.collector.store import migrate as migrate_collector

    settings = collector_settings(arguments.data)
    sources = f"the log and {arguments.file}" if arguments.file else "the log"
    print(f"computing rows and tables again from {sources}; the old ones stay until this is done")
    opened = reading(arguments.file) if arguments.file else nullcontext()
    with opened as backup:
        address = settings.database_conninfo()
        migrate_collector(address)
        migrate_analyzer(address)
        async with connect(settings, "collector") as bus:
            outcome = await rebuilt(bus, settings, backup, is_trial=arguments.dry_run)
    for line in outcome.lines():
        print(line)
    if arguments.dry_run:
        print("nothing was replaced (--dry-run)")
    return exits.FAILED if outcome.failed else exits.OK


async def rebuilt(
    bus: Bus, settings: Settings, backup: Reader | None, *, is_trial: bool = False
) -> Outcome:
    """Rebuild the migrated database of `settings` from the log on `bus`, and say what became of it.

    `backup` has the rows of a backup; a trial (`is_trial`) replaces nothing. Raises BackupError,
    BusError, and psycopg's errors.
    """
    from services.collector.rebuilding import rebuild_rows
    from services.collector.visibility import Visibility

    with staged(settings.database_conninfo()) as staging:
        if backup is not None:
            await asyncio.to_thread(check_database, staging.address, backup)
            await asyncio.to_thread(load_database, staging.address, backup, _ROWS)
        counted = await rebuild_rows(bus, staging.address)
        complete = await asyncio.to_thread(staging.keep_complete)
        evaluations = {key: fact.evaluation for key, fact in counted.items()} | complete
        incomplete = evaluations.keys() - complete.keys()
        in_database = await asyncio.to_thread(staging.at_home, incomplete)
        outcome = Outcome(
            rebuilt_runs=complete,
            kept_runs={key: evaluations[key] for key in in_database},
            lost_runs={key: evaluations[key] for key in incomplete - in_database},
        )
        await _analyze(bus, settings, staging.address, {*complete.values()}, outcome, staging)
        if not is_trial:
            analyzed = outcome.digests.keys()
            outcome.keep(await asyncio.to_thread(staging.replace, complete.keys(), analyzed))
    if not is_trial:
        with closing(Visibility(bus, settings.database_conninfo())) as visibility:
            await visibility.judge_all()
        await _analyze_kept(bus, settings, outcome)
    return outcome


async def _analyze_kept(bus: Bus, settings: Settings, outcome: Outcome) -> None:
    """Analyze evaluations that are only in the database, and have no tables there."""
    from services.analyzer.store import Store

    address = settings.database_conninfo()
    unanalyzed = sorted(
        {*outcome.kept_runs.values()} - outcome.digests.keys() - outcome.failed.keys()
    )
    with closing(Store(address)) as store:
        lacking = await asyncio.to_thread(store.without_tables, unanalyzed)
    await _analyze(bus, settings, address, lacking, outcome)


async def _analyze(
    bus: Bus,
    settings: Settings,
    address: str,
    evaluations: Collection[str],
    outcome: Outcome,
    staging: Staging | None = None,
) -> None:
    """Analyze those of `evaluations` that were measured, with the rows at `address`.

    If these are the rows of a `staging`, evaluations of which it lacks a run are left out: the run
    settled since, and the analyzer makes the tables.
    """
    from services.analyzer.frames.bounds import Bounds
    from services.analyzer.service import Analyzer

    bounds = Bounds(spans=settings.analysis_max_spans)
    wait_s = settings.analysis_wait_s
    with closing(Analyzer(bus, address, bounds, lambda _: None, wait_s)) as analyzer:
        for evaluation in sorted(evaluations):
            facts = [entry.fact for entry in await bus.read(decisions_of(evaluation))]
            for measured in (fact for fact in facts if isinstance(fact, EvaluationMeasured)):
                keys = [run_key(evaluation, run.run, run.attempt) for run in measured.runs]
                if staging is not None and await asyncio.to_thread(staging.lacks, keys):
                    continue
                try:
                    analyzed = await analyzer.analyze(measured, facts)
                except Exception as error:  # noqa: BLE001 (the others are rebuilt all the same)
                    outcome.failed[evaluation] = f"{type(error).__name__}: {error}"
                    continue
                digests = await _digests(bus, evaluation)
                outcome.digests[evaluation] = analyzed.digest in digests or not digests


async def _digests(bus: Bus, evaluation: str) -> list[str]:
    """Return the digests of the tables of an evaluation in the log, the newest last."""
    story = [entry.fact for entry in await bus.read(story_of(evaluation))]
    return [fact.digest for fact in story if isinstance(fact, AnalysisCompleted)][-1:]


def _runs(evaluations: Mapping[int, str]) -> str:
    """Say how many attempts these are, and of which evaluations."""
    names = sorted({*evaluations.values()})
    counts = f"{many(len(evaluations), 'run')} of {many(len(names), 'evaluation')}"
    return f"{counts} ({_listed(names)})" if names else counts


def _listed(names: Collection[str]) -> str:
    first = ", ".join(sorted(names)[:_MOST_NAMED])
    return f"{first} …" if len(names) > _MOST_NAMED else first
