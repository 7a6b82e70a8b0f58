"""Words that somebody looks for in the catalog, as a page's form takes them. Pure."""

from collections.abc import Collection, Iterable

MOST_CHARACTERS = 200
"""Of what is looked for: every model's text is searched for each word, at each request."""


def terms_of(search: str) -> frozenset[str]:
    """Return the words of a `search`, without their case; of a long one, those at its beginning."""
    return frozenset(search[:MOST_CHARACTERS].casefold().split())


def has_terms(texts: Iterable[str], terms: Collection[str]) -> bool:
    """Tell whether the `texts` of a thing have every one of the `terms` in them."""
    if not terms:
        return True
    text = " ".join(texts).casefold()
    return all(term in text for term in terms)
