"""A device's roof: the most it computes and moves, and what of that bounds a run.

Pure. A GPU's figures are by precision; a host's by precision and by how many threads made them.
`host_roof` and `gpu_roof` measure them, `roofs` keeps them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from schemas.run import Ceiling

PRECISIONS = ("float32", "tf32", "float16", "bfloat16", "int8", "float64")
"""Arithmetics that have a peak. tf32: float32 with 10 bits of mantissa, on tensor cores."""
_FASTER = ("allowed)", "products)")
"""How predictors end a precision that allows a faster one, as `float32 (tf32 allowed)`."""
MOST_OTHERS = 0.1
"""Share of the cores' time that others may have beside a measurement of a host."""
WHOLE = 0
"""In place of a number of threads: of all of the device."""

Threads = Mapping[int, Ceiling]


@dataclass(frozen=True, slots=True)
class Picked:
    """The ceilings of one run, as its conditions have them, and what a reader must know of them."""

    ceilings: Mapping[str, Ceiling] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Roof:
    """FLOP/s by precision and threads, bytes/s by threads; a note where they could not be had."""

    #: cpu, gpu, or '' where there is none
    kind: str = ""
    #: the device's name
    device: str = ""
    peaks: Mapping[str, Threads] = field(default_factory=dict)
    bandwidths: Threads = field(default_factory=dict)
    #: why a precision, or `copy`, has no figure
    lacking: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    #: share of the cores' time that others had while a host was measured
    others: float = 0.0

    @property
    def is_disturbed(self) -> bool:
        """Say whether others had so much that a quieter moment would show more."""
        return self.others > MOST_OTHERS

    def words(self) -> dict[str, Any]:
        """Return it as a worker is told it, and as a file keeps it."""
        return {
            "kind": self.kind,
            "device": self.device,
            "peaks": {name: _words(each) for name, each in self.peaks.items()},
            "bandwidths": _words(self.bandwidths),
            "lacking": dict(self.lacking),
            "note": self.note,
            "others": self.others,
        }

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Self:
        """Return what `words` says. Raises KeyError, ValueError, TypeError, AttributeError."""
        return cls(
            str(words["kind"]),
            str(words["device"]),
            {name: _threads(each) for name, each in words["peaks"].items()},
            _threads(words["bandwidths"]),
            {name: str(each) for name, each in words["lacking"].items()},
            str(words["note"]),
            float(words["others"]),
        )

    def of_run(self, precision: str, threads: int) -> Picked:
        """Return what bounds a run in `precision`, as its conditions have it, on `threads`.

        Where it computes in several precisions, of the fastest: a roof is what can't be passed.
        """
        if not self.kind or (not self.peaks and not self.bandwidths):
            return Picked(note=self.note)
        bandwidth = _at(self.bandwidths, threads)
        if bandwidth is None:
            return Picked(note=f"no roof: {self.lacking.get('copy', 'nobody measured a copy')}")
        found = {"memory_bandwidth": bandwidth}
        names = [_as_here(name, self.peaks) for name in arithmetic_of(precision)]
        if not names:
            note = f"a precision of {precision or 'nothing'} tells no peak of its device: no roof"
            return Picked(found, note)
        peaks = [peak for name in names if (peak := _at(self.peaks.get(name, {}), threads))]
        if len(peaks) < len(names):
            lacking = next(name for name in names if name not in self.peaks)
            reason = self.lacking.get(lacking, "nobody measured it")
            return Picked(found, f"no roof: the peak of {lacking} is not known here ({reason})")
        note = self.note
        if self.is_disturbed:
            note = f"others had {self.others:.0%} of the cores while its roof was measured: the "
            note += "true roof is higher"
        return Picked({**found, "peak_flops": max(peaks, key=_most)}, note)

    def whole(self) -> tuple[dict[str, Ceiling], Ceiling | None]:
        """Return the peaks by precision and the bandwidth of all of the device."""
        told = {name: _at(each, WHOLE) for name, each in self.peaks.items()}
        peaks = {name: each for name, each in told.items() if each is not None}
        return peaks, _at(self.bandwidths, WHOLE)


NO_ROOF = Roof()
"""Of who asks for none."""


def arithmetic_of(precision: str) -> tuple[str, ...]:
    """Return what a run's precision (`Opened.precision`) lets it compute in; () where unknown.

    `float32 (tf32 allowed)` is tf32; `int8 (quantized float32)` int8; `float16+float32` both.
    """
    head, _, rest = precision.partition(" (")
    inner, _, how = rest.partition(" ")
    names = (inner,) if how in _FASTER else tuple(head.split("+"))
    return names if all(name in PRECISIONS for name in names) else ()


def _as_here(name: str, peaks: Mapping[str, Threads]) -> str:
    """Return float32 for tf32 on a device without: allowed is no more than allowed."""
    return "float32" if name == "tf32" and "tf32" not in peaks else name


def _most(ceiling: Ceiling) -> float:
    return ceiling.measured or ceiling.datasheet or 0.0


def _at(known: Threads, threads: int) -> Ceiling | None:
    """Return what `threads` reach: as measured, on the line between two counts, or all at most."""
    if not known:
        return None
    counts = sorted(known)
    if threads in known or WHOLE in known:
        return known.get(threads, known.get(WHOLE))
    if threads <= WHOLE or threads > counts[-1]:
        return known[counts[-1]]
    over = next(count for count in counts if count > threads)
    under = max((count for count in counts if count < threads), default=over)
    low, high = known[under], known[over]
    if low.measured is None or high.measured is None or under == over:
        return high
    part = (threads - under) / (over - under)
    between = low.measured + (high.measured - low.measured) * part
    method = f"{high.method}; of {threads} threads, on the line between {under} and {over}"
    return high.model_copy(update={"measured": between, "method": method})


def _words(known: Threads) -> dict[str, Any]:
    return {str(threads): each.model_dump() for threads, each in known.items()}


def _threads(words: Mapping[str, Any]) -> dict[int, Ceiling]:
    return {int(threads): Ceiling(**each) for threads, each in words.items()}
