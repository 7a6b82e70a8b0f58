"""The way down a trace: from its slowest query to a layer, and to the kernel it started."""

import re

from playwright.async_api import Locator, Page, expect

_DEVICE = re.compile(r"Lane\s*device \d+ · stream \d+")


async def open_longest_kernel(page: Page) -> None:
    """Show the slowest query of a `page`'s trace, its longest layer, then that layer's kernel.

    Layers that started nothing on a device are passed over.
    """
    await page.wait_for_selector("#timeline:not([data-state=loading])", state="attached")
    more = page.get_by_role("button", name="More commands")
    if await more.is_visible():  # a phone has a menu
        await more.click()
    await page.get_by_role("button", name="Slowest query").click()
    details = page.locator("[data-part=details]")
    layers = await _rows(details, "Its layers").all_inner_texts()
    for name in layers:
        await _rows(details, "Its layers").get_by_text(name, exact=True).first.click()
        kernels = _rows(details, "Started on the device")
        if await kernels.count():
            break
        await page.get_by_role("button", name="Slowest query").click()
    await kernels.first.click()
    await expect(details.locator("dl").first).to_have_text(_DEVICE, use_inner_text=True)


def _rows(details: Locator, title: str) -> Locator:
    """Return the buttons of the table whose caption begins with `title`."""
    caption = details.page.locator("caption").filter(has_text=re.compile(f"^{title}"))
    return details.locator(".children table").filter(has=caption).locator("tbody button")
