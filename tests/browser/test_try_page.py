"""The page that tries models, and a report, in a real browser."""

from base64 import b64encode

from playwright.async_api import Page

from mlscope.bus.records import ReceivedCommand
from mlscope.manifests.reading import read_manifest_text
from mlscope.settings import Settings
from schemas.analysis import Prediction, Predictions
from schemas.encoding.codec import decode_body, encode_body
from schemas.manifest import DatasetManifest, Sample
from schemas.request import ShowPredictions
from schemas.subjects import REQUEST
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import until
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running
from tests.services.gateway.site.test_new import an_agent
from tests.services.gateway.site.test_trying import model
from tests.stand_ins import StandIns
from tests.stories import E, ending, whole_story


async def test_models_answer_side_by_side(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    async def reply(asked: ReceivedCommand) -> bytes:
        evaluation = decode_body(ShowPredictions, asked.body).evaluation
        cat = {"label": "cat <b>", "probability": 0.9}
        prediction = Prediction(run="r0", query=0, sample=0, features=(cat,))
        return encode_body(Predictions(evaluation=evaluation, predictions=(prediction,), total=1))

    await standing.bus.answer(f"{REQUEST}.predictions", reply, queue="predictions")
    standing.models = (model("first", kind="text"), model("second", kind="text"))
    standing.agents = (an_agent(),)
    line = Sample(content=b64encode(b"a dog").decode(), labels=("dog",))
    lines = DatasetManifest(name="lines", modality="text", samples=(line,))
    standing.catalog = {"datasets": (lines,)}
    standing.then = lambda evaluation: ending(evaluation)
    await page.goto(f"{running.url}/try?model=first")
    await page.click("button.primary")
    await until(page, "document.querySelector('#try-status').textContent.includes('Choose')")
    await page.fill("textarea", "a cat")
    await page.select_option("select", "second")
    await page.get_by_label("sample 0 (dog)").check()
    await page.click("button.primary")
    await until(page, "document.querySelectorAll('.models h3').length === 4")
    asked = await page.locator(".asked figcaption").all_inner_texts()
    assert asked == ["your text.txt", "lines: sample 0 (dog)"]
    assert await page.inner_text(".models li span") == "cat <b>"
    await assert_accessible(page)
    await photographs.take(page, "try")


CUT = """[...document.querySelectorAll("main img")].filter((img) =>
  getComputedStyle(img).objectFit !== "contain" &&
  Math.abs(img.width / img.height - img.naturalWidth / img.naturalHeight) > 0.05)
  .map((img) => img.outerHTML)"""
"""The pictures of which a part is not shown."""


async def test_long_samples_are_shown_whole(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    """A line of print is many times as wide as high."""
    file = Settings().manifests_folder / "datasets" / "text_lines.yml"
    lines = read_manifest_text(file.read_text("utf-8"), file.name)
    standing.models, standing.agents = (model("first"),), (an_agent(),)
    standing.catalog = {"datasets": (lines,)}
    for path in ("/try?model=first", "/datasets"):
        await page.goto(f"{running.url}{path}")
        await until(page, "document.querySelector('main img').naturalWidth > 0")
        first = page.locator("main img").first
        assert await first.evaluate("(img) => img.naturalWidth / img.naturalHeight") > 4
        assert await page.evaluate(CUT) == []
        await photographs.take(page, f"samples-{path[1:4]}")


async def test_a_report_is_accessible(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await standing.tell(*whole_story())
    await page.goto(f"{running.url}/evaluations/{E}/report")
    assert await page.inner_text("h1") == "tiny:1.0.0"
    await assert_accessible(page)
    await photographs.take(page, "report")
