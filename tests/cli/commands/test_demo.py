"""The demo as a user runs it: right labels, a result, and nothing left running.

`make test` runs it with one block of each load and two batch sizes, `make test-all` as it is.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

from cli.cluster.processes import Identity, is_alive

RECORDED = ("resnet50", "bert-base", "detector")
BRIEF = """
import sys
from cli.commands import demo
from cli.main import main
from schemas.request import Blocks

brief = {"blocks": Blocks(), "batch_sizes": (1, 2)}
request = demo.demo_request().model_copy(update=brief)
demo.demo_request = lambda: request
sys.exit(main())
"""
LABEL = re.compile(r" *[* ] +[\d.]+%  (?P<label>.+)")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(("-c", BRIEF), id="brief"),
        pytest.param(("-m", "cli.main"), id="as it is", marks=pytest.mark.long),
    ],
)
def test_the_demo_recognises_its_photos_and_leaves_nothing(
    data_folder: Path, program: tuple[str, ...]
) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MLSCOPE_")}
    command = [sys.executable, *program, "demo", "--stay", "--data", str(data_folder)]
    path = data_folder / "progress"
    with (
        path.open("w") as stderr,
        subprocess.Popen(
            command,
            env={**environ, "MLSCOPE_GATEWAY_PORT": "0"},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as demo,
    ):
        assert demo.stdout is not None
        printed = list(lines_up_to_the_pages(demo.stdout))
        progress = path.read_text()
        (page_line,) = (line for line in printed if line.startswith("The evaluation's page, "))
        try:
            assert "efficientnet-lite0" in text_of_page(page_line)
            for line, model in zip(printed[-3:], RECORDED, strict=True):
                text = text_of_page(line, "&form=table")
                assert f"Trace recorded-{model}:1.0.0" in text, progress
                assert "Longest at level system" in text
        finally:
            demo.send_signal(signal.SIGINT)
    assert demo.returncode == 0, path.read_text()
    stdout = "".join(printed)
    photos = {photo: each[0] for photo, each in labels(stdout).items()}
    assert len(photos) == 9
    cats = {"tabby", "tiger cat", "Egyptian cat"}
    assert photos["chelsea.jpg"] in cats
    assert photos["panda.jpg"] == "giant panda"
    assert photos["goldfish.jpg"] == "goldfish"
    assert {len(each) for each in labels(stdout).values()} == {5}
    assert layer_rows(stdout) == 10
    for title in ("Latency", "Throughput", "The 10 slowest layers", "Where the time went"):
        assert f"\n{title}" in stdout
    assert_first_tables(stdout)
    assert "/evaluations/" in stdout
    assert re.search(r"running .* runs", progress), "progress is shown"
    assert still_running(data_folder) == []


def lines_up_to_the_pages(stdout: IO[str]) -> Iterator[str]:
    """Yield lines up to the last one with the address of a recording's page."""
    for line in stdout:
        yield line
        if "Recorded on" in line:
            yield from (stdout.readline() for _ in RECORDED)
            return


def text_of_page(line: str, query: str = "") -> str:
    """Return the text of the page at the address that ends a line, which logs the browser in.

    `query` is added to the address.
    """
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(line.split()[-1] + query)
    assert page.status_code == 200, page.text
    return page.text


def assert_first_tables(stdout: str) -> None:
    """Require one row of each load at level model, whose figures fit each other."""
    latencies, rates = rows_below(stdout, "Latency of queries"), rows_below(stdout, "Throughput")
    loads = [(scenario, int(size), level) for scenario, size, level, *_ in latencies]
    assert loads[0] == ("online", 1, "model")
    assert {load[1:] for load in loads[1:]} >= {(1, "model"), (2, "model")}
    assert len(set(loads)) == len(loads)
    assert [tuple(row[:3]) for row in rates] == [tuple(row[:3]) for row in latencies]
    for (scenario, size, _, count, mean, p90), (*_, rate) in zip(latencies, rates, strict=True):
        in_flight = 1 if scenario == "online" else 2
        assert int(count) >= 4
        assert first_number(mean) > 0 < first_number(p90)
        # Little's law; a trimmed mean is not the mean.
        under_way = first_number(mean) * first_number(rate) / int(size)
        assert 0.1 * in_flight < under_way < 1.5 * in_flight, (mean, rate)
    assert re.search(r"^scenario .* share +result +doubt$", stdout, re.MULTILINE)
    seen = [line for line in stdout.splitlines() if "none seen" in line]
    assert not [line for line in seen if "%" in line]


def rows_below(stdout: str, title: str) -> list[list[str]]:
    """Return the cells of the rows of loads in the table with a title."""
    lines = stdout.split(f"\n{title}\n", 1)[1].split("\n\n", 1)[0].splitlines()
    loads = [line for line in lines if line.startswith(("online ", "batched "))]
    return [re.split(r" {2,}", line) for line in loads]


def first_number(cell: str) -> float:
    """Return the number that a cell begins with; a time in seconds."""
    value, unit, *_ = cell.split()
    return float(value.replace(",", "")) * {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "/s": 1.0}[unit]


def labels(text: str) -> dict[str, list[str]]:
    """Return each photo's labels, the best first."""
    found: dict[str, list[str]] = {}
    lines = iter(text.split("What the model sees")[1].splitlines()[1:])
    for line in lines:
        if line.endswith(".jpg"):
            photo = found.setdefault(line, [])
        elif label := LABEL.fullmatch(line):
            photo.append(label["label"])
        else:
            break
    return found


def layer_rows(text: str) -> int:
    """Return how many rows the table of the slowest layers has that begin with an index."""
    table = text.split("\nThe 10 slowest layers", 1)[1].split("\n\n", 1)[0]
    return sum(line.split(maxsplit=1)[0].isdigit() for line in table.splitlines()[1:])


def still_running(folder: Path) -> list[str]:
    state = json.loads((folder / "cluster.json").read_text())
    known = [(each["name"], each["identity"]) for each in state["processes"]]
    known.append(("supervisor", state["supervisor"]))
    return [name for name, identity in known if identity and is_alive(Identity(**identity))]
