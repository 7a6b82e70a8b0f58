"""Loads that became slower since they were last measured on the same system. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlencode

from mlscope.manifests.naming import name_in_figures
from mlscope.quantities import estimate_text, lapse_text, shown
from mlscope.statistics import (
    REPEATS_READ,
    Estimate,
    certain_change,
    ratio_interval,
    repeat_limit,
)
from schemas.analysis import Headline
from schemas.status import EvaluationStatus
from services.gateway.pages.headlines import Figure, latency_figure, load_of

_Measured = tuple[EvaluationStatus, Headline]


@dataclass(frozen=True, slots=True)
class Regression:
    """A load whose newest latency is above the one before, with intervals that do not overlap."""

    newer: EvaluationStatus
    older: EvaluationStatus
    headline: Headline
    before: Headline
    change: float
    least_change: float | None
    most_change: float | None
    #: the share up to which drift alone changes the load, by its measurements before both
    drift: float | None = None

    @property
    def load(self) -> str:
        """Scenario and batch size."""
        return load_of(self.headline)

    @property
    def figures(self) -> tuple[Figure | None, Figure | None]:
        """The latency before and now."""
        return latency_figure(self.before), latency_figure(self.headline)

    @property
    def change_text(self) -> str:
        """How much slower it is."""
        return f"+{shown(self.change, 'share')}"

    @property
    def interval(self) -> str:
        """The 95% interval of the change."""
        interval = estimate_text(self.change, self.least_change, self.most_change, "share").interval
        return interval if interval.endswith(("interval", "unknown")) else f"{interval}%"

    @property
    def noise(self) -> str:
        """Which of both measurements had a caveat about noise."""
        times = [(self.before, "before"), (self.headline, "now")]
        noisy = [name for headline, name in times if headline.is_noisy]
        if len(noisy) == 2:
            return "both noisy"
        return f"noisy {noisy[0]}" if noisy else "no noise seen"

    @property
    def doubt(self) -> str:
        """How far apart both were requested, and what is known of drift between them."""
        lapse = lapse_text((self.newer.requested_ns - self.older.requested_ns) / 1e9)
        if self.drift is None:
            return f"{lapse} apart, drift unknown"
        return f"{lapse} apart, drift up to {shown(self.drift, 'share')}"

    @property
    def comparison(self) -> str:
        """The address that compares both evaluations, the older one first."""
        evaluations = [self.older.evaluation, self.newer.evaluation]
        return f"/compare?{urlencode([('evaluation', name) for name in evaluations])}"

    @property
    def history(self) -> str:
        """The address of all measurements of the model on this system."""
        query = {
            "model": name_in_figures(self.newer.model),
            "framework": _framework_of(self.newer, self.headline),
            "agent": self.headline.agent,
            "device": self.newer.device,
            "scenario": self.headline.scenario,
        }
        return f"/explore/history?{urlencode({name: v for name, v in query.items() if v})}"


def regressions_in(history: Iterable[EvaluationStatus], order: str = "certain") -> list[Regression]:
    """Return the loads whose newest measurement is slower than the one before, in an `order`.

    `history` is newest first; `order` is one of `ORDERS`. Loads are alike if model (of any
    version), framework, device, agent, scenario, parameters and batch size are equal. Other
    conditions may differ: the comparison of the two evaluations tells. Measurements before both
    say how much of a change may be drift.
    """
    by_load: dict[tuple[object, ...], list[_Measured]] = defaultdict(list)
    for status in history:
        for headline in status.headlines:
            load = (
                name_in_figures(status.model),
                _framework_of(status, headline),
                status.device,
                headline.agent,
                headline.scenario,
                headline.parameters,
                headline.batch_size,
                headline.statistic,
            )
            measured = by_load[load]
            if not measured or measured[-1][0] is not status:
                measured.append((status, headline))
    regressions = (regression for measured in by_load.values() for regression in _of(measured))
    return sorted(regressions, key=ORDERS[order])


ORDERS: Mapping[str, Callable[[Regression], float]] = MappingProxyType(
    {
        "certain": lambda regression: -(regression.least_change or 0.0),
        "change": lambda regression: -regression.change,
        "quiet": lambda regression: (
            regression.headline.is_noisy + regression.before.is_noisy - min(regression.change, 0.99)
        ),
    }
)
"""How loads that became slower may be sorted: by the change that is certain, by the estimate, or
those without noise first."""


def _framework_of(status: EvaluationStatus, headline: Headline) -> str:
    """Return the framework of a load; before release 0.2, which says it, the only planned one."""
    return headline.framework or status.framework.partition(" ")[0]


def _of(measured: Sequence[_Measured]) -> list[Regression]:
    """Return by how much the newest of a load's measurements, the first, is slower than the next.

    It is none unless that is certain.
    """
    if len(measured) < 2:
        return []
    (newer, headline), (older, before), *earlier = measured
    if headline.latency_ns is None or before.latency_ns is None:
        return []
    drift = repeat_limit(
        ((status.model, status.framework), own.latency_ns.value)
        for status, own in earlier[:REPEATS_READ]
        if own.latency_ns and own.latency_ns.value > 0
    )
    then, now = (
        Estimate(latency.value, latency.low, latency.high)
        for latency in (before.latency_ns, headline.latency_ns)
    )
    change = certain_change(then, now, drift)
    if change <= 0:
        return []
    ratio = ratio_interval(now, then)
    low, high = (None if end is None else end - 1 for end in (ratio.low, ratio.high))
    return [Regression(newer, older, headline, before, change, low, high, drift)]
