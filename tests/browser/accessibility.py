"""What axe-core finds wrong with a page for people who do not see it or use no mouse."""

from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Page

_AXE = Path(__file__).with_name("vendor") / "axe.min.js"
_SEVERE = ("serious", "critical")
_RUN = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.map(({ id, impact, help, nodes }) => ({
    id, impact, help, where: nodes.map((node) => node.html.slice(0, 160)),
  }));
}"""


_SCHEME = "matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'"


async def assert_accessible(page: Page, *, both_schemes: bool = True) -> None:
    """Fail on everything serious or critical that axe-core finds in `page` as it stands.

    It looks in both colour schemes, or without `both_schemes` in the page's own; the page has its
    own again afterwards.
    """
    own: Literal["dark", "light"] = await page.evaluate(_SCHEME)
    if not await page.evaluate("typeof axe === 'object'"):
        await page.evaluate(f"{_AXE.read_text('utf-8')};0")
    schemes = (own, "light" if own == "dark" else "dark")
    for scheme in schemes if both_schemes else schemes[:1]:
        await page.emulate_media(color_scheme=scheme)
        assert not (lines := await _violations(page)), f"{page.url} ({scheme})\n{lines}"
    await page.emulate_media(color_scheme=own)


async def _violations(page: Page) -> str:
    """Return the severe ones as lines."""
    violations: list[dict[str, Any]] = await page.evaluate(_RUN)
    severe = [violation for violation in violations if violation["impact"] in _SEVERE]
    return "\n".join(
        f"{violation['id']} ({violation['impact']}): {violation['help']}\n    "
        + "\n    ".join(violation["where"])
        for violation in severe
    )
