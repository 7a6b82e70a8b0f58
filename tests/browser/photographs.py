"""Pictures of pages, for people to look at; no test compares them."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from playwright.async_api import Page

from tests.browser.chromium import HEIGHT_PX

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")


@dataclass(frozen=True)
class Photographs:
    """Where pictures go; without a folder none is taken."""

    folder: Path | None

    async def take(self, page: Page, name: str, *, is_whole: bool = True) -> None:
        """Photograph `page` at each width, light and dark, as `NAME-WIDTH-SCHEME.png`.

        `is_whole`: down to the end of the page, not only what the window shows.
        """
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        size_before = page.viewport_size
        for width, scheme in product(WIDTHS, SCHEMES):
            await page.set_viewport_size({"width": width, "height": HEIGHT_PX})
            await page.emulate_media(color_scheme=scheme)
            await page.wait_for_timeout(200)
            path = self.folder / f"{name}-{width}-{scheme}.png"
            await page.screenshot(path=path, full_page=is_whole)
        if size_before is not None:
            await page.set_viewport_size(size_before)
