"""How a person works a page: with a mouse, on a touch screen, or with keys alone."""

from abc import ABC, abstractmethod

from playwright.async_api import Locator, Page

_MOST_STOPS = 150


class Hands(ABC):
    """One way to press and to type; locators are of the page that the person sees."""

    def __init__(self, page: Page) -> None:
        """Take the `page` to work on."""
        self.page = page

    @abstractmethod
    async def press(self, target: Locator) -> None:
        """Press a link, button, box or the like: `target`."""

    async def type(self, target: Locator, text: str) -> None:
        """Write a `text` into a field: `target`."""
        await self.press(target)
        await self.page.keyboard.type(text)


class Mouse(Hands):
    """Points and clicks."""

    async def press(self, target: Locator) -> None:
        """Click in the middle of a `target`."""
        await target.click()


class Finger(Hands):
    """Taps on a touch screen."""

    async def press(self, target: Locator) -> None:
        """Tap in the middle of a `target`."""
        await target.tap()


class Keys(Hands):
    """Goes by Tab to what it presses; never points."""

    async def press(self, target: Locator) -> None:
        """Go to a `target` and press Enter, or Space on a box; arrows choose among radios."""
        kind = await target.get_attribute("type")
        if kind == "radio":
            await self._choose(target)
            return
        await self._reach(target)
        await self.page.keyboard.press("Space" if kind == "checkbox" else "Enter")

    async def type(self, target: Locator, text: str) -> None:
        """Go to the field `target` and write a `text`."""
        await self._reach(target)
        await self.page.keyboard.type(text)

    async def _choose(self, radio: Locator) -> None:
        name = await radio.get_attribute("name")
        await self._reach(self.page.locator(f"input[type=radio][name={name}]:checked"))
        for _ in range(20):
            if await radio.is_checked():
                return
            await self.page.keyboard.press("ArrowDown")
        raise AssertionError(f"no arrow chooses {name}")

    async def _reach(self, target: Locator) -> None:
        """Press Tab until a `target` has the focus, and check that the focus can be seen."""
        await target.wait_for()
        for _ in range(_MOST_STOPS):
            if await target.evaluate("element => element === document.activeElement"):
                ring = "getComputedStyle(document.activeElement).outlineStyle"
                assert await self.page.evaluate(ring) != "none", f"no ring around {target}"
                return
            await self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not reach {target}")
