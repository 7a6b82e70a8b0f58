"""Photographs every page and state: `python -m tests.browser.gallery OUT`.

It starts a local cluster, makes real evaluations in it and imports those that agents recorded on
an H200; `--cluster` names the data folder of a cluster that runs and already has them.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from PIL import Image
from playwright.async_api import Page

from cli.cluster.state import read_state
from cli.offline.recordings import RECORDINGS
from schemas.status import EvaluationStatus
from tests.browser.chromium import HEIGHT_PX, Browsing, browsing, find_chromium
from tests.browser.descending import open_longest_kernel
from tests.browser.photographs import SCHEMES, WIDTHS
from tests.flow.clusters import Cluster, running
from tests.gpu.recordings import recorded_bundle

MODEL = "efficientnet-lite0"
RECORDED = "resnet50-32"
LOAD = ("--scenario", "online", "--trace-level", "framework", "--batch-size", "1,2,4,8")
#: Blocks in turn until results are known well, so that figures have intervals.
MEASURED = {"MLSCOPE_DEFAULT_BUDGET_S": "10"}

#: The pictures that README and docs show.
BEST = ("home", "new-chosen", "evaluation", "trace-recorded", "analysis-layers", "compare")

_PATIENCE_MS = 120_000
"""What a picture may wait for: a model to open, a query to end, a page on a busy machine."""

Action = Callable[[Page], Awaitable[object]]


@dataclass(frozen=True)
class Subjects:
    """What the pictures show: evaluations by their ids."""

    before: str
    after: str
    recorded: str
    #: evaluations of shipped recordings, by what their pictures are called
    shipped: Mapping[str, str] = field(default_factory=dict)
    agent: str = ""
    live: str = ""


@dataclass(frozen=True)
class Shot:
    """A picture: the page's path, and what is done there before."""

    name: str
    path: str
    action: Action | None = None
    is_whole: bool = True


def shots_of(subjects: Subjects) -> list[Shot]:
    """Return the pictures of everything that has ended."""
    own, recorded = f"/evaluations/{subjects.after}", f"/evaluations/{subjects.recorded}"
    chosen = f"/new?model={MODEL}&trace_level=framework&scenarios=online&batch_sizes=1,2,4,8"
    both = f"{subjects.before},{subjects.after}"
    compared = f"evaluation={subjects.before}&evaluation={subjects.after}"
    return [
        Shot("home", "/"),
        Shot("evaluations", "/evaluations"),
        Shot("evaluations-none", "/evaluations?search=nothing-like-this"),
        Shot("evaluation", own),
        Shot("evaluation-recorded", recorded),
        Shot("trace", f"{own}/trace", _drawn, is_whole=False),
        Shot("trace-slowest", f"{own}/trace", _slowest, is_whole=False),
        Shot("trace-recorded", f"{recorded}/trace", _slowest, is_whole=False),
        Shot("trace-keys", f"{own}/trace", _keys, is_whole=False),
        *(
            Shot(f"kernel-{name}", f"/evaluations/{evaluation}/trace", open_longest_kernel)
            for name, evaluation in subjects.shipped.items()
        ),
        Shot("frameworks", "/frameworks"),
        Shot("explore", "/explore"),
        Shot("explore-systems", "/explore/systems"),
        Shot("explore-history", f"/explore/history?model={MODEL}"),
        Shot("analyses", f"{own}/analyses"),
        Shot("analyses-recorded", f"{recorded}/analyses"),
        Shot("analysis-layers", f"{recorded}/analyses/A2?run=b32-online-framework"),
        Shot("analysis-layers-own", f"{own}/analyses/A2"),
        Shot("analysis-layer-latency", f"{own}/analyses/A3"),
        Shot("analysis-latency", f"{own}/analyses/latency"),
        Shot("analysis-roofline", f"{recorded}/analyses/A14"),
        Shot("analysis-kernels", f"{recorded}/analyses/A8"),
        Shot("analysis-empty", f"{own}/analyses/A8"),
        Shot("compare-choose", f"/compare?runs={subjects.after}"),
        Shot("compare", f"/compare?runs={quote(both, safe=',')}"),
        Shot("compare-mirrored", f"/compare?runs={quote(both, safe=',')}", _mirrored),
        Shot("compare-report", f"/api/compare/report?{compared}"),
        Shot("report", f"{own}/report"),
        Shot("new", "/new"),
        Shot("new-chosen", chosen),
        Shot("new-wrong", f"{chosen}&batch_sizes=one"),
        Shot("models", "/models"),
        Shot("model", f"/models/{MODEL}/1.0.0"),
        Shot("agents", "/agents"),
        Shot("agent", f"/agents/{subjects.agent}"),
        Shot("datasets", "/datasets"),
        Shot("dataset", "/datasets/photos/1.0.0"),
        Shot("scenarios", "/scenarios"),
        Shot("status", "/status"),
        Shot("missing", "/evaluations/0000000000000000"),
        Shot("login", "/login"),
        Shot("try", f"/try?model={MODEL}"),
        Shot("try-answered", f"/try?model={MODEL}", _answered),
    ]


def live_shots_of(subjects: Subjects) -> list[Shot]:
    """Return the pictures of what runs."""
    live = f"/evaluations/{subjects.live}"
    return [
        Shot("evaluation-live", live, _measured),
        Shot("trace-live", f"{live}/trace", _second, is_whole=False),
        Shot("home-running", "/", _second),
    ]


async def _second(page: Page) -> None:
    await page.wait_for_timeout(2500)


async def _measured(page: Page) -> None:
    """Wait until strips are drawn: a model is opened before its first query."""
    await page.wait_for_selector("canvas")
    await _second(page)


async def _answered(page: Page) -> None:
    for number in (0, 1):
        await page.locator("[name=sample]").nth(number).check()
    await page.get_by_role("button", name="Predict").click()
    await page.wait_for_selector("#answers li")


async def _mirrored(page: Page) -> None:
    await page.locator("#mirrored button").click()
    await page.wait_for_selector("#mirrored rect")


async def _drawn(page: Page) -> None:
    await page.wait_for_selector("#timeline:not([data-state=loading])", state="attached")
    await page.wait_for_timeout(400)


async def _slowest(page: Page) -> None:
    await _drawn(page)
    more = page.locator("#timeline .more")
    if await more.is_visible():
        await more.click()
    await page.locator("[data-do=slowest]").click()
    await page.wait_for_timeout(800)


async def _keys(page: Page) -> None:
    await _drawn(page)
    await page.locator("[data-part=lanes]").focus()
    await page.keyboard.press("?")
    await page.wait_for_timeout(200)


async def photograph(browser: Browsing, cluster: Cluster, shots: list[Shot], folder: Path) -> None:
    """Take `shots` of a cluster's pages at each width, light and dark, into a `folder`."""
    origin = read_state(cluster.folder).gateway_url
    for width, scheme in product(WIDTHS, SCHEMES):
        page = await browser.page(width=width, scheme=scheme)
        page.set_default_timeout(_PATIENCE_MS)
        await page.goto(cluster.pages_url())
        for shot in shots:
            response = await page.goto(origin + shot.path)
            if shot.action is not None:
                await shot.action(page)
            path = folder / f"{shot.name}-{width}-{scheme}.png"
            await page.screenshot(path=path, full_page=shot.is_whole)
            if response is not None and response.status >= 400 and shot.name != "missing":
                sys.stderr.write(f"{shot.path}: {response.status}\n")
        await page.context.close()


def illustrate(pictures: Path, images: Path) -> None:
    """Write the best of the `pictures`, down to the fold, as small files into a folder `images`."""
    images.mkdir(parents=True, exist_ok=True)
    for name in BEST:
        with Image.open(pictures / f"{name}-1280-light.png") as picture:
            top = picture.convert("RGB").crop((0, 0, picture.width, min(picture.height, HEIGHT_PX)))
        top.save(images / f"{name}.webp", quality=80, method=6)


def made_in(cluster: Cluster) -> Subjects:
    """Return what a `cluster` has; what is missing is made now."""
    with cluster.client() as client:
        every = client.evaluations()
    own = [
        one.evaluation for one in every if one.model.startswith(MODEL) and one.state == "analyzed"
    ]
    while len(own) < 2:
        ran = cluster.mlscope("run", MODEL, *LOAD, "--detach").strip()
        cluster.mlscope("watch", ran, timeout=600)
        own.insert(0, ran)
    recorded = _imported(cluster, every, "resnet50", RECORDED)
    names = {name.removeprefix("h200-"): name for name in RECORDINGS}
    shipped = {
        name: _imported(cluster, every, f"recorded-{name}", bundle)
        for name, bundle in names.items()
    }
    with cluster.client() as client:
        agent = client.evaluation(own[0]).status().agents[0]
    return Subjects(own[1], own[0], recorded, shipped, agent)


def _imported(
    cluster: Cluster, every: Sequence[EvaluationStatus], model: str, bundle_name: str
) -> str:
    """Return the evaluation of a recorded bundle, imported now if no one of `model` is there."""
    evaluations = [one.evaluation for one in every if one.model.startswith(model)]
    if evaluations:
        return evaluations[0]
    with TemporaryDirectory() as folder:
        bundle = recorded_bundle(bundle_name, Path(folder))
        return cluster.mlscope("import", str(bundle)).strip()


@contextmanager
def _live(cluster: Cluster, subjects: Subjects) -> Iterator[Subjects]:
    """Run an evaluation that lasts while its pictures are taken."""
    load = ("--scenario", "poisson:rate_hz=20,queries=10000", "--trace-level", "framework")
    live = cluster.mlscope("run", MODEL, *load, "--detach").strip()
    try:
        yield replace(subjects, live=live)
    finally:
        cluster.mlscope("cancel", live)


async def _photograph_all(cluster: Cluster, folder: Path, pattern: str) -> None:
    program = find_chromium()
    if program is None:
        raise SystemExit("no chromium on this machine")
    subjects = made_in(cluster)

    def chosen(shots: list[Shot]) -> list[Shot]:
        return [shot for shot in shots if pattern in shot.name]

    async with browsing(program) as browser:
        await photograph(browser, cluster, chosen(shots_of(subjects)), folder)
        if chosen(live_shots_of(Subjects("", "", ""))):
            with _live(cluster, subjects) as subjects:
                await photograph(browser, cluster, chosen(live_shots_of(subjects)), folder)
        sys.stderr.writelines(f"{line}\n" for line in browser.complaints())


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the pictures")
    parser.add_argument("--cluster", type=Path, help="data folder of a running cluster")
    parser.add_argument("--only", default="", help="part of the names of the pictures to take")
    parser.add_argument("--docs", type=Path, help="folder of the documentation's pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.cluster:
        cluster = Cluster(arguments.cluster.resolve(), {})
        asyncio.run(_photograph_all(cluster, arguments.out, arguments.only))
    else:
        with running(MEASURED, has_all_models=True) as cluster:
            asyncio.run(_photograph_all(cluster, arguments.out, arguments.only))
    if arguments.docs:
        illustrate(arguments.out, arguments.docs)


if __name__ == "__main__":
    main()
