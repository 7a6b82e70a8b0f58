"""A person's own dataset in a real browser: a folder or a file, in the form and in the catalog."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from playwright.async_api import Page, Route

from mlscope.bus.bus import Bus
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing, until
from tests.browser.conftest import shared_loop
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running, serving_gateway
from tests.services.gateway.rest.test_datasets import PETS, zip_of
from tests.services.gateway.rest.test_files import names_in
from tests.services.gateway.sent_files import kept_in
from tests.services.gateway.site.test_new import SCENARIOS, an_agent
from tests.stand_ins import StandIns

MANIFEST = "#field-dataset_manifest"
STATUS = "document.querySelector('{}').querySelector('[role=status]').textContent"
IN_FORM, IN_CATALOG = STATUS.format("[data-keep=dataset]"), STATUS.format("#own")
START = "button[value=start]"
FILES = "[data-samples][multiple]"


@shared_loop
async def keeping(
    browser: Browsing, bus: Bus, standing: StandIns, tmp_path: Path
) -> AsyncIterator[Running]:
    """Run a gateway that keeps files of up to 3 MB in the folder `kept`."""
    standing.agents = (an_agent(),)
    standing.catalog = {"scenarios": SCENARIOS}
    (tmp_path / "kept").mkdir()
    async with serving_gateway(bus, kept_in(tmp_path / "kept", 3_000_000)) as running:
        yield running
        await browser.close_pages()


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Make a folder of classes, with a long name of another script and what is no sample."""
    further = {f"pets/dog/{'Hündchen ' * 14}.jpg": b"d", "pets/.cache/x.jpg": b"e"}
    for name, content in {**PETS, **further}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "pets"


async def test_a_folder_becomes_the_dataset_of_a_request(
    page: Page, keeping: Running, pets: Path, tmp_path: Path
) -> None:
    await page.goto(f"{keeping.url}/new?model=tiny")
    await page.click("details[data-keep=dataset] summary")
    await page.set_input_files("[data-samples][webkitdirectory]", pets)
    await until(page, f"{IN_FORM}.endsWith(': 4 samples in 2 classes, kept for a day')")
    manifest = yaml.safe_load(await page.input_value(MANIFEST))
    assert manifest["name"].startswith("pets-")
    assert manifest["source"]["path"] == "pets"
    assert manifest["source"]["address"].rpartition("/")[2] in names_in(tmp_path / "kept")
    await until(page, "document.querySelector('[data-region=preview]').innerText.includes('fits')")


async def test_small_files_travel_in_the_request_and_large_ones_are_sent(
    page: Page, keeping: Running, tmp_path: Path
) -> None:
    small, large = tmp_path / "1.jpg", tmp_path / "2.jpg"
    small.write_bytes(b"a")
    large.write_bytes(bytes(1_100_000))
    await page.goto(f"{keeping.url}/new?model=tiny")
    await page.click("details[data-keep=dataset] summary")
    await page.set_input_files("[data-samples][multiple]", small)
    await until(page, f"{IN_FORM} === '1 read'")
    assert names_in(tmp_path / "kept") == []
    await page.set_input_files("[data-samples][multiple]", [small, large])
    await until(page, f"{IN_FORM}.endsWith(': 2 samples, kept for a day')")


async def test_the_catalog_takes_one_and_leads_to_the_form(
    browser: Browsing, page: Page, keeping: Running, tmp_path: Path, photographs: Photographs
) -> None:
    browser.tolerate("400 (Bad Request)")
    packed, other = tmp_path / "pets.zip", tmp_path / "pets.csv"
    packed.write_bytes(zip_of(PETS))
    other.write_text("file,label\n")
    await page.goto(f"{keeping.url}/datasets")
    await page.set_input_files("#own input:not([webkitdirectory])", other)
    await until(page, f"{IN_CATALOG}.includes('describe it in a manifest')")
    assert not await page.is_visible("#own a.button")
    await page.set_input_files("#own input:not([webkitdirectory])", packed)
    await until(page, f"{IN_CATALOG}.endsWith(': 3 samples in 2 classes, kept for a day.')")
    await assert_accessible(page)
    await photographs.take(page, "datasets-own")
    await page.click("#own a.button")
    assert "name: pets-" in await page.input_value(MANIFEST)
    assert await page.is_visible(MANIFEST), "what is filled is not folded away"
    await photographs.take(page, "new-own-dataset")


@dataclass
class Held:
    """Holds datasets that a page sends, by the names of their files, until they are let go."""

    going: dict[str, asyncio.Event] = field(default_factory=dict)
    came: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def hold(self, route: Route) -> None:
        """Hold one dataset."""
        name = route.request.url.partition("name=")[2]
        self.going[name] = asyncio.Event()
        self.came.put_nowait(name)
        await self.going[name].wait()
        await route.continue_()


async def in_the_form(page: Page, keeping: Running) -> Held:
    """Open the form; what it sends is held."""
    held = Held()
    await page.route("**/api/datasets?**", held.hold)
    await page.goto(f"{keeping.url}/new?model=tiny")
    await page.click("details[data-keep=dataset] summary")
    return held


def packed(folder: Path, name: str) -> Path:
    """Write a packed dataset."""
    (folder / name).write_bytes(zip_of(PETS))
    return folder / name


async def test_nothing_starts_while_a_dataset_is_sent(
    page: Page, keeping: Running, tmp_path: Path
) -> None:
    held = await in_the_form(page, keeping)
    assert await page.is_enabled(START)
    await page.set_input_files(FILES, packed(tmp_path, "a.zip"))
    await held.came.get()
    assert await page.is_disabled(START)
    held.going["a.zip"].set()
    await until(page, f"{IN_FORM}.endsWith('in 2 classes, kept for a day')")
    assert await page.is_enabled(START)


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")], ids="-".join)
async def test_only_the_newest_choice_is_written(
    page: Page, keeping: Running, tmp_path: Path, order: tuple[str, str]
) -> None:
    held = await in_the_form(page, keeping)
    for name in ("old.zip", "new.zip"):
        await page.set_input_files(FILES, packed(tmp_path, name))
        await held.came.get()
    for name in order:
        async with page.expect_response(f"**/api/datasets?name={name}.zip"):
            held.going[f"{name}.zip"].set()
        await page.evaluate("new Promise((resolve) => setTimeout(resolve))")
    await until(page, f"{IN_FORM}.startsWith('new-')")
    assert await page.is_enabled(START)
    assert "name: new-" in await page.input_value(MANIFEST)


async def test_a_manifest_that_is_typed_meanwhile_stays(
    page: Page, keeping: Running, tmp_path: Path
) -> None:
    held = await in_the_form(page, keeping)
    await page.set_input_files(FILES, packed(tmp_path, "a.zip"))
    await held.came.get()
    await page.fill(MANIFEST, "name: typed")
    held.going["a.zip"].set()
    await until(page, f"{IN_FORM}.endsWith('the manifest that you typed stays')")
    assert await page.input_value(MANIFEST) == "name: typed"


async def test_the_catalog_shows_the_newest_choice(
    page: Page, keeping: Running, tmp_path: Path
) -> None:
    held = Held()
    await page.route("**/api/datasets?**", held.hold)
    await page.goto(f"{keeping.url}/datasets")
    for name in ("slow.zip", "new.zip"):
        await page.set_input_files("#own input:not([webkitdirectory])", packed(tmp_path, name))
        await held.came.get()
    held.going["new.zip"].set()
    await until(page, f"{IN_CATALOG}.startsWith('new-')")
    async with page.expect_response("**/api/datasets?name=slow.zip"):
        held.going["slow.zip"].set()
    await page.evaluate("new Promise((resolve) => setTimeout(resolve))")
    assert (await page.evaluate(IN_CATALOG)).startswith("new-")


async def test_an_answer_without_a_message_ends_the_sending(
    browser: Browsing, page: Page, keeping: Running, tmp_path: Path
) -> None:
    browser.tolerate("502 (Bad Gateway)")

    async def broken(route: Route) -> None:
        await route.fulfill(status=502, json={})

    await page.route("**/api/datasets?**", broken)
    await page.goto(f"{keeping.url}/datasets")
    await page.set_input_files("#own input:not([webkitdirectory])", packed(tmp_path, "a.zip"))
    await until(page, f"{IN_CATALOG} === 'The gateway answered 502.'")
