"""The page on other languages shows the example as it is."""

from tests.docs.pages import DOCS, REPOSITORY


def test_the_page_shows_the_agent_that_is_tested() -> None:
    code = (REPOSITORY / "tests/examples/javascript_agent/agent.mjs").read_text()
    assert f"```javascript\n{code}```" in (DOCS / "howto" / "other_languages.md").read_text()
