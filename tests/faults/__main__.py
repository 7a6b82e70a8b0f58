"""Seeded trials in one command, which goes on where it was ended; see `make test-faults`.

python -m tests.faults --trials 500 --seed 0 --results FILE
"""

import argparse
import signal
import sys
from pathlib import Path

from tests.faults import results
from tests.faults.performing import perform, why_skipped
from tests.faults.trials import trial
from tests.faults.worlds import Worlds

TRIALS_A_WORLD = 40
"""After so many a new cluster is started: a log of few evaluations is folded quickly."""


def options(arguments: list[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--trials", type=int, default=500, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first trial's")
    parser.add_argument("--step", type=int, default=1, help="from one seed to the next")
    parser.add_argument("--brief", action="store_true", help="shorter loads and faults")
    parser.add_argument("--results", type=Path, default=Path("build/faults.jsonl"))
    return parser.parse_args(arguments)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(chosen: argparse.Namespace) -> int:
    """Perform the trials that are not done, and print what came of all; 1 where one failed."""
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    end = chosen.seed + chosen.trials * chosen.step
    seeds = range(chosen.seed, end, chosen.step)
    skipped: list[str] = []
    performed: dict[str, int] = {}
    with Worlds() as worlds:
        for seed in results.to_do(seeds, results.read(chosen.results)):
            planned = trial(seed, is_brief=chosen.brief)
            if reason := why_skipped(worlds, planned):
                skipped.append(reason)
                continue
            result = perform(worlds, planned)
            results.append(chosen.results, result)
            verdict = "; ".join(result.wrong) or f"as it should be ({'; '.join(result.proof)})"
            say(f"{planned}: {result.took_s:.1f} s: {verdict}")
            performed[planned.world] = performed.get(planned.world, 0) + 1
            if result.wrong:
                worlds.end(planned.world, chosen.results.with_suffix(".logs") / str(seed))
            elif performed[planned.world] % TRIALS_A_WORLD == 0:
                worlds.end(planned.world)
    lines = results.read(chosen.results)
    chosen_lines = [lines[seed] for seed in seeds if seed in lines]
    say(results.summary(chosen_lines))
    for reason in sorted(set(skipped)):
        say(f"{skipped.count(reason)} trials: {reason}")
    return int(any(line["wrong"] for line in chosen_lines))


if __name__ == "__main__":
    # Whoever ends this command ends its clusters, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main(options(sys.argv[1:])))
