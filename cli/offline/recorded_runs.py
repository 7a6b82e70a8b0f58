"""Which recorded run of a bundle answers for a planned one."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cli.failures import Misused
from cli.offline.bundle import Bundle
from schemas.plan import SessionPlan

_RunKey = tuple[int, str, str, int, str, int]
"""Batch size, variant, cold-start session, group, scenario and level."""

_Parameters = Mapping[str, Any]


class RecordedRuns:
    """The runs of a bundle, by what distinguishes them."""

    def __init__(self, bundle: Bundle) -> None:
        """Read the plan of a bundle. Raises Misused when two runs cannot be distinguished."""
        #: for each key the scenario parameters and names of the recorded runs
        self._runs: dict[_RunKey, list[tuple[_Parameters, str]]] = {}
        for run, key, parameters in _keys(bundle.plan.sessions):
            similar = self._runs.setdefault(key, [])
            twins = [name for own_parameters, name in similar if own_parameters == parameters]
            if twins:
                raise Misused(f"{bundle.path}: runs {twins[0]} and {run} cannot be distinguished")
            similar.append((parameters, run))

    def names_of(self, session: SessionPlan) -> dict[str, str]:
        """Return the name of the recorded run for each run of a session, '' if there is none.

        A recorded run matches when its parameters are equal. Otherwise the only one matches whose
        parameters are a part of the planned ones: a catalog adds defaults to a plan that was made
        without its scenarios.
        """
        names: dict[str, str] = {}
        for run, key, planned in _keys([session]):
            candidates = self._runs.get(key, [])
            equal = [name for parameters, name in candidates if parameters == planned]
            partial = [
                name for parameters, name in candidates if parameters.items() <= planned.items()
            ]
            names[run] = equal[0] if equal else partial[0] if len(partial) == 1 else ""
        return names


def _keys(sessions: Iterable[SessionPlan]) -> Iterator[tuple[str, _RunKey, _Parameters]]:
    """Yield each run's name, its key, and its scenario's parameters."""
    for session in sessions:
        # Each cold start is a session; otherwise a batch size and variant have one session.
        cold_start = session.session if session.variant == "cold" else ""
        session_key = (session.batch_size, session.variant, cold_start)
        for run in session.runs:
            yield run.run, (*session_key, run.group, run.scenario, run.level), run.parameters
