"""A person's way through a real cluster: start an evaluation, see it live, find out, compare."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.async_api import Locator, Page, expect

from cli.offline.recordings import RECORDINGS, unpacked
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing, until
from tests.browser.descending import open_longest_kernel
from tests.browser.hands import Finger, Hands, Keys, Mouse
from tests.flow.clusters import Cluster, running

MODEL = "tiny-cnn"
WITHIN_MS = 90_000
QUERIES = 120
"""Of each run, 20 a second: long enough to look at its trace while it goes on."""
SHOWN = "globalThis.__timeline?.stats().spans"
REFERENCES = """() => {
  const sources = "[src], [srcset], [data], [poster], link[href], image, use";
  const named = [...document.querySelectorAll(sources)].map((element) => element.outerHTML);
  const styles = [...document.querySelectorAll("style, [style], [fill], [filter]")];
  const imports = styles.flatMap((element) =>
    element.outerHTML.match(/@import[^;]*|url\\((?!["']?(#|data:))[^)]*/g) ?? []);
  const links = [...document.querySelectorAll("a[href]")].map((link) => link.getAttribute("href"));
  const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
  return [...named, ...imports, ...links.filter((href) => !href.startsWith("#")), ...loaded];
}"""
"""What a document refers to outside of itself, and what it loaded."""

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Place:
    """Where the journey takes place: a cluster, and an evaluation made before."""

    cluster: Cluster
    before: str


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Lend a cluster to all journeys."""
    with running() as lent:
        yield lent


@pytest.fixture(scope="module")
def place(cluster: Cluster) -> Place:
    """Evaluate once, for the comparison at the end."""
    load = ("--scenario", "fixed_rate:queries=20")
    request = ("run", MODEL, *load, "--trace-level", "framework")
    before = cluster.mlscope(*request, "--detach").strip()
    cluster.mlscope("watch", before)
    return Place(cluster, before)


async def test_with_a_mouse(browser: Browsing, place: Place) -> None:
    await travel(Mouse(await browser.page()), place)


@pytest.mark.long
async def test_with_keys_alone(browser: Browsing, place: Place) -> None:
    await travel(Keys(await browser.page(scheme="dark")), place)


@pytest.mark.long
async def test_on_a_phone(browser: Browsing, place: Place) -> None:
    await travel(Finger(await browser.page(width=390)), place)


@pytest.mark.long
@pytest.mark.parametrize("name", RECORDINGS)
async def test_a_recording_leads_down_to_a_kernel(
    page: Page, cluster: Cluster, tmp_path: Path, name: str
) -> None:
    evaluation = cluster.mlscope("import", str(unpacked(name, tmp_path))).strip()
    address = urljoin(cluster.pages_url(), f"/evaluations/{evaluation}/trace")
    await page.goto(cluster.pages_url())
    await page.goto(address)
    await open_longest_kernel(page)
    details = page.locator("[data-part=details]")
    await expect(details.get_by_text("this layer in A2")).to_be_visible()
    await expect(details).to_contain_text("predict")


async def travel(hands: Hands, place: Place) -> None:
    """Go the whole way with these `hands`, at this `place`."""
    page = hands.page
    await page.goto(place.cluster.pages_url())
    await arrived(hands, "/")
    await hands.press(page.get_by_role("link", name="New", exact=True))
    await arrived(hands, "/new")
    await start(hands)
    evaluation = await begun(hands)
    await hands.press(page.locator("main").get_by_role("link", name="Trace", exact=True))
    await arrived(hands, f"/evaluations/{evaluation}/trace")
    await follow_to_the_record(page)
    layer = await slowest_layer(hands)
    await hands.press(page.get_by_role("link", name="this layer in A2"))
    await arrived(hands, f"/evaluations/{evaluation}/analyses/A2")
    await expect(page.locator("#table tbody")).to_contain_text(layer)
    await hands.press(page.locator(f".trail a[href='/evaluations/{evaluation}']"))
    await arrived(hands, f"/evaluations/{evaluation}")
    await expect(page.locator("#evaluation")).to_have_attribute("data-live", "no")
    await compare(hands, evaluation, place.before)
    await hands.press(page.locator(f".rivals a[href='/evaluations/{evaluation}']"))
    await arrived(hands, f"/evaluations/{evaluation}")
    await report(hands, evaluation)


async def check(hands: Hands) -> None:
    """Ask axe-core about the page, on the journeys of `make test-all`: those without a mouse.

    `make test` asks it about each page in the tests of that page.
    """
    if not isinstance(hands, Mouse):
        await assert_accessible(hands.page, both_schemes=False)


async def arrived(hands: Hands, path: str) -> None:
    """Check that the page shows `path`, whole, accessible and no wider than its window."""
    page = hands.page
    await page.wait_for_url(re.compile(rf"^http://[^/]+{re.escape(path)}(\?.*)?(#.*)?$"))
    await page.wait_for_load_state("load")
    await expect(page.locator("h1")).to_be_visible()
    await check(hands)
    width = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], f"{page.url} is {width[0]} px wide in a window of {width[1]}"


async def start(hands: Hands) -> None:
    """Fill the form: a model, a level, a load; then start."""
    page = hands.page
    await hands.type(page.locator("#field-search"), MODEL)
    await hands.press(page.locator(f"#model-{MODEL}"))
    await expect(page.locator("[data-region=preview]")).to_contain_text("1 agent fits")
    await hands.press(page.locator("#scenario-fixed_rate"))
    await hands.press(page.locator("#scenario-online"))
    await hands.type(page.locator("#field-fixed_rate\\.queries"), str(QUERIES))
    await hands.press(page.locator("#level-framework"))
    load = f"--scenario fixed_rate:queries={QUERIES}"
    command = f"mlscope run {MODEL} {load} --trace-level framework"
    await expect(page.locator("#text-command")).to_have_text(command)
    await hands.press(page.get_by_role("button", name="Start", exact=True))


async def begun(hands: Hands) -> str:
    """Wait on its own page until the evaluation runs; return its id."""
    page = hands.page
    await page.wait_for_url(re.compile(r"/evaluations/[0-9a-f]{16}$"))
    await expect(page.locator("#state")).to_have_text("running", timeout=WITHIN_MS)
    await check(hands)
    return str(page.url.rpartition("/")[2])


async def follow_to_the_record(page: Page) -> None:
    """See on the trace's `page` that spans arrive while it is live, then that it is the record."""
    await expect(page.locator("#timeline")).to_have_attribute("data-live", "yes")
    for _ in range(2):
        shown = int(await page.evaluate(SHOWN) or 0)
        await until(page, f"{SHOWN} > {shown}")
    address = urljoin(page.url, await page.locator("#timeline").get_attribute("data-api"))
    while await state_at(page, address) != "analyzed":
        await page.wait_for_timeout(500)
    await expect(page.locator("#timeline")).to_have_attribute("data-live", "no")
    if not await page.locator("#timeline[data-run$=framework]").count():
        # Between two runs the page showed the record of the first.
        await page.reload()


async def state_at(page: Page, address: str) -> str:
    """Return the state of the evaluation at an `address` of REST, with the login of a `page`."""
    answer = await page.request.get(address)
    return str((await answer.json())["state"])


async def slowest_layer(hands: Hands) -> str:
    """Pick the slowest query on the timeline and go down to its longest layer; return its name."""
    page = hands.page
    await page.wait_for_selector("#timeline:not([data-state=loading])", state="attached")
    more = page.get_by_role("button", name="More commands")
    if await more.is_visible():  # a phone has a menu
        await hands.press(more)
    await hands.press(page.get_by_role("button", name="Slowest query"))
    details = page.locator("[data-part=details]")
    await expect(details.locator("dl").first).to_contain_text("Query")
    link = page.get_by_role("link", name="this layer in A2")
    for _ in range(4):
        if await link.count():
            break
        await hands.press(_longest_inside(details))
    await check(hands)
    return str(await details.locator("h3").inner_text())


def _longest_inside(details: Locator) -> Locator:
    return details.locator(".children tbody button").first


async def compare(hands: Hands, evaluation: str, before: str) -> None:
    """Compare an `evaluation` with the one `before` it."""
    page = hands.page
    await hands.press(page.get_by_role("link", name="Compare with …"))
    await arrived(hands, "/compare")
    await hands.press(page.locator(f"#run-{before}"))
    await hands.press(page.get_by_role("button", name="Compare", exact=True))
    await expect(page.locator("#ratios")).to_contain_text("fixed_rate")
    for compared in (evaluation, before):
        assert compared in await page.locator(".rivals").inner_text()
    await arrived(hands, "/compare")


async def report(hands: Hands, evaluation: str) -> None:
    """Open the report of an `evaluation`, and see that it stands alone."""
    await hands.press(hands.page.get_by_role("link", name="Report", exact=True))
    await arrived(hands, f"/evaluations/{evaluation}/report")
    assert await hands.page.evaluate(REFERENCES) == []
