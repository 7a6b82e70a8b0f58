"""The page that starts evaluations in a real browser: with and without scripts, by keys alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, Route

from mlscope.bus.bus import Bus
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing, until
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running, serving_gateway
from tests.services.gateway.rest.test_files import MANIFEST, names_in
from tests.services.gateway.sent_files import kept_in
from tests.services.gateway.site.test_new import SCENARIOS, an_agent
from tests.stand_ins import StandIns

COMMAND = "document.querySelector('#text-command')?.textContent"


@pytest.fixture(autouse=True)
def catalog(standing: StandIns) -> None:
    """Put scenarios and agents into the catalog."""
    standing.agents = (an_agent(),)
    standing.catalog = {"scenarios": SCENARIOS}


@asynccontextmanager
async def keeping(browser: Browsing, bus: Bus, folder: Path) -> AsyncIterator[Running]:
    """Run a gateway that keeps files in `folder`, until the pages that talk to it are closed."""
    async with serving_gateway(bus, kept_in(folder)) as running:
        yield running
        await browser.close_pages()


async def test_each_change_shows_who_would_run_it_and_the_same_as_text(
    page: Page, running: Running, standing: StandIns
) -> None:
    standing.expected_s = 40.2
    await page.goto(f"{running.url}/new")
    await page.check("#model-tiny")
    await until(page, f"{COMMAND} === 'mlscope run tiny'")
    assert not await page.is_visible("button.check"), "a script checks by itself"
    await page.check("#level-framework")
    await page.check("#scenario-poisson")
    await page.fill("#field-poisson\\.rate_hz", "5")
    await page.get_by_label("Who sees it").select_option("only you and owners")
    wanted = (
        "mlscope run tiny --scenario online --scenario poisson:rate_hz=5 --trace-level framework "
        "--visibility private"
    )
    await until(page, f"{COMMAND} === '{wanted}'")
    preview = await page.inner_text("[data-region=preview]")
    assert "1 agent fits" in preview
    assert "about 40 s (from 6 earlier runs of this model on this agent)" in preview
    await page.fill("#field-batch_sizes", "one")
    await until(page, "document.querySelector('#field-batch_sizes').matches('[aria-invalid]')")
    await page.fill("#field-batch_sizes", "1, 2")
    await until(page, "!document.querySelector('#field-batch_sizes').matches('[aria-invalid]')")
    await page.reload()
    assert await page.is_checked("#level-framework"), "the address holds the request"
    assert await page.input_value("#field-visibility") == "private"
    await page.click("button.primary")
    await page.wait_for_url("**/evaluations/*")


async def test_a_manifest_is_checked_as_it_is_typed(page: Page, running: Running) -> None:
    await page.goto(f"{running.url}/new")
    await page.click("details[data-keep=manifest] summary")
    await page.fill("#field-manifest", "name: mine\nversio: 1.0.0")
    await until(page, "document.querySelector('#manifest-check').innerText.includes('versio')")


async def test_files_that_a_manifest_names_are_sent_from_here(
    browser: Browsing, page: Page, bus: Bus, tmp_path: Path
) -> None:
    graph = tmp_path / "net.onnx"
    graph.write_bytes(b"graph")
    kept = tmp_path / "kept"
    kept.mkdir()
    status = "document.querySelector('[data-send]').closest('p').querySelector('[role=status]')"
    async with keeping(browser, bus, kept) as running:
        await page.goto(f"{running.url}/new")
        await page.click("details[data-keep=manifest] summary")
        await page.fill("#field-manifest", "name: mine\nversio: 1.0.0")
        await page.set_input_files("[data-send]", graph)
        await until(page, f"{status}.textContent.startsWith('Correct the manifest')")
        await page.fill("#field-manifest", MANIFEST)
        await page.set_input_files("[data-send]", graph)
        await until(page, f"{status}.textContent === '1 sent, kept for a day'")
        text = await page.input_value("#field-manifest")
        await until(page, "document.querySelector('#manifest-check').innerText.includes('right')")
    (name,) = names_in(kept)
    assert f"net.onnx: 'artifact://uploads/{name}'" in text


async def test_what_is_typed_while_a_file_is_sent_stays(
    browser: Browsing, page: Page, bus: Bus, tmp_path: Path
) -> None:
    graph = tmp_path / "net.onnx"
    graph.write_bytes(b"graph")
    kept = tmp_path / "kept"
    kept.mkdir()

    async def typed_meanwhile(route: Route) -> None:
        await page.fill("#field-manifest", f"{MANIFEST}description: Typed meanwhile.  # and why\n")
        await route.continue_()

    async with keeping(browser, bus, kept) as running:
        await page.goto(f"{running.url}/new")
        await page.click("details[data-keep=manifest] summary")
        await page.fill("#field-manifest", MANIFEST)
        await page.route("**/api/files*", typed_meanwhile)
        await page.set_input_files("[data-send]", graph)
        await until(page, "document.querySelector('#field-manifest').value.includes('artifact:')")
        text = await page.input_value("#field-manifest")
    assert text.endswith("description: Typed meanwhile.  # and why\n")


async def test_it_starts_without_a_script(browser: Browsing, running: Running) -> None:
    page = await browser.page(java_script_enabled=False)
    await page.goto(f"{running.url}/new")
    await page.check("#model-tiny")
    await page.fill("#field-batch_sizes", "1, 2")
    await page.click("button.check")
    assert "mlscope run tiny --batch-size 1,2" in await page.inner_text("#text-command")
    await page.click("button.primary")
    await page.wait_for_url("**/evaluations/*")


async def test_it_starts_by_keys_alone(page: Page, running: Running) -> None:
    await page.goto(f"{running.url}/new")
    await page.focus("#field-search")
    await page.keyboard.type("tin")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.id") == "model-tiny"
    await page.keyboard.press("Space")
    await until(page, f"{COMMAND} === 'mlscope run tiny'")
    assert await page.evaluate("document.activeElement.id") == "model-tiny", "focus stays"
    await page.focus("button.primary")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/evaluations/*")


async def test_it_is_accessible(page: Page, running: Running, photographs: Photographs) -> None:
    await page.goto(f"{running.url}/new?model=tiny&batch_sizes=one")
    await assert_accessible(page)
    await page.goto(f"{running.url}/new?model=tiny")
    await assert_accessible(page)
    await photographs.take(page, "new")
