"""tokenize: text to numbers of words' pieces (WordPiece)."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters

Text = str | bytes | Sequence[str]
_MOST_CHARACTERS = 100
"""A word of more is unknown, as in BERT's reference tokenizer."""
_NEEDED = ("[UNK]", "[CLS]", "[SEP]", "[PAD]")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Pieces of words with their numbers, and whether text is made lower case."""

    numbers: Mapping[str, int]
    lowercase: bool

    @classmethod
    def read(cls, parameters: Parameters) -> "Vocabulary":
        """Return what `vocabulary` (a file, a piece a line) and `lowercase` say.

        Raises BadParameter.
        """
        lines = parameters.labels(("vocabulary",))
        numbers = {piece: index for index, piece in enumerate(lines)}
        missing = [piece for piece in _NEEDED if piece not in numbers]
        if missing:
            expected = "a file with [UNK], [CLS]…"
            raise BadParameter(parameters.operator, "vocabulary", missing[0], expected)
        return cls(numbers, parameters.flag("lowercase", default=True))


def tokenize(parameters: Parameters) -> Callable[[Text], npt.NDArray[np.int64]]:
    """Return text (str, UTF-8 bytes, or a pair of texts) -> int64 (length,).

    `gives` is ids (places of the pieces in the file `vocabulary`, one a line), mask (1 where a
    piece is, 0 behind) or types (0 in the first text, 1 in the second). [CLS] first [SEP] second
    [SEP], cut to `length` from the longer text's end, then [PAD]. `lowercase` also takes accents
    away. Equal to BERT's own BertTokenizer (basic, then greedy longest match).
    """
    vocabulary = Vocabulary.read(parameters)
    numbers = vocabulary.numbers
    length = parameters.whole("length", default=128, least=3)
    gives = parameters.choice("gives", ("ids", "mask", "types"), "ids")

    def apply(text: Text) -> npt.NDArray[np.int64]:
        pieces = [pieces_of(one, vocabulary) for one in _texts(text)]
        cut(pieces, length - 1 - len(pieces))
        ids, types = [numbers["[CLS]"]], [0]
        for kind, each in enumerate(pieces):
            ids += [*(numbers[piece] for piece in each), numbers["[SEP]"]]
            types += [kind] * (len(each) + 1)
        found = {"ids": ids, "mask": [1] * len(ids), "types": types}[gives]
        row = np.full(length, numbers["[PAD]"] if gives == "ids" else 0, np.int64)
        row[: len(found)] = found
        return row

    return apply


def _texts(text: Text) -> list[str]:
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    if isinstance(text, str):
        return [text]
    if len(text) not in (1, 2) or not all(isinstance(each, str) for each in text):
        raise ValueError("a text, or a pair of texts, is needed")
    return list(text)


def cut(pieces: Sequence[list[str]], most: int) -> None:
    """Take pieces from the end of the longest text until there are at most `most`."""
    while sum(map(len, pieces)) > most:
        max(reversed(pieces), key=len).pop()


def pieces_of(text: str, vocabulary: Vocabulary) -> list[str]:
    """Return a text's pieces, as BERT's BertTokenizer finds them."""
    words = _words(text, lowercase=vocabulary.lowercase)
    return [piece for word in words for piece in _of_word(word, vocabulary.numbers)]


def _of_word(word: str, vocabulary: Mapping[str, int]) -> list[str]:
    """Return the longest pieces from the left; [UNK] for a word that is not made of any."""
    if len(word) > _MOST_CHARACTERS:
        return ["[UNK]"]
    found: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((e for e in ends if prefix + word[start:e] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        found.append(prefix + word[start:end])
        start = end
    return found


def _words(text: str, *, lowercase: bool) -> Iterator[str]:
    """Yield words, each punctuation mark and each Chinese character by itself."""
    for word in _clean(text).split():
        plain = word
        if lowercase:
            parts = unicodedata.normalize("NFD", word.lower())
            plain = "".join(each for each in parts if unicodedata.category(each) != "Mn")
        for alone, group in groupby(plain, key=_is_punctuation):
            together = "".join(group)
            yield from together if alone else (together,)


def _clean(text: str) -> str:
    return "".join(_cleaned(each) for each in unicodedata.normalize("NFC", text))


def _cleaned(character: str) -> str:
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if character in "\0�" or unicodedata.category(character).startswith("C"):
        return ""
    return f" {character} " if _is_chinese(ord(character)) else character


def _is_punctuation(character: str) -> bool:
    """Say so of all of Unicode's, and of ASCII's signs that are not letters, digits or space."""
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(character).startswith("P")


def _is_chinese(code: int) -> bool:
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )
