"""What is looked for in the catalog: every word, at a cost that no address chooses."""

from services.gateway.pages.searching import MOST_CHARACTERS, has_terms, terms_of


def test_every_word_is_in_the_texts_of_a_thing() -> None:
    assert has_terms(("ResNet-50", "classifies images"), terms_of("RESNET  image"))
    assert not has_terms(("ResNet-50", "classifies images"), terms_of("resnet audio"))
    assert has_terms((), terms_of("  "))


def test_a_word_is_looked_for_once_and_of_a_long_text_the_beginning() -> None:
    """Each word is looked for in every model: thousands kept the pages from everybody."""
    assert terms_of("e " * 30_000) == {"e"}
    assert terms_of("x" * MOST_CHARACTERS + " y") == {"x" * MOST_CHARACTERS}
