"""tokenize: text to the numbers of word pieces (WordPiece)."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters

Text = str | bytes | Sequence[str]
_MAX_CHARACTERS = 100
"""A longer word is unknown, as in BERT's reference tokenizer."""
_MAX_CACHED = 4096
"""Characters whose properties are kept: more than a text in most languages has."""
_ASCII_SPACES = {code: " " if chr(code) in "\t\n\r" else None for code in (*range(32), 127)}
"""What becomes of ASCII's control characters: spaces, or nothing."""
_ASCII_TOKEN = re.compile(r"[!-/:-@\[-`{-~]|[^ !-/:-@\[-`{-~]+")
"""A punctuation mark, or a word, in printable ASCII."""
_REQUIRED = ("[UNK]", "[CLS]", "[SEP]", "[PAD]")
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""Unicode's blocks of Chinese characters, as BERT counts them."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The numbers of word pieces, and whether text is converted to lower case."""

    numbers: Mapping[str, int]
    lowercase: bool

    @classmethod
    def read(cls, parameters: Parameters) -> "Vocabulary":
        """Read the parameters `vocabulary` (a file with a piece on each line) and `lowercase`.

        Raises BadParameter.
        """
        lines = parameters.labels(("vocabulary",))
        numbers = {piece: index for index, piece in enumerate(lines)}
        missing = [piece for piece in _REQUIRED if piece not in numbers]
        if missing:
            expected = "a file with [UNK], [CLS]…"
            raise BadParameter(parameters.operator, "vocabulary", missing[0], expected)
        return cls(numbers, parameters.flag("lowercase", default=True))


def tokenize(parameters: Parameters) -> Callable[[Text], npt.NDArray[np.int64]]:
    """Return text (str, UTF-8 bytes, or a pair of texts) -> int64 (length,).

    `gives` is ids (line numbers of the pieces in the file `vocabulary`, from 0), mask (1 for a
    piece, 0 for padding) or types (0 in the first text, 1 in the second). The pieces are [CLS]
    first [SEP] second [SEP], cut to `length` at the end of the longer text, then [PAD]. `lowercase`
    also removes accents. Equal to BERT's BertTokenizer (basic, then greedy longest match).
    """
    vocabulary = Vocabulary.read(parameters)
    numbers = vocabulary.numbers
    length = parameters.integer("length", default=128, minimum=3)
    gives = parameters.choice("gives", ("ids", "mask", "types"), "ids")

    def apply(text: Text) -> npt.NDArray[np.int64]:
        pieces = [pieces_of(part, vocabulary) for part in texts_of(text)]
        truncate(pieces, length - 1 - len(pieces))
        ids, types = [numbers["[CLS]"]], [0]
        for text_number, text_pieces in enumerate(pieces):
            ids += [*(numbers[piece] for piece in text_pieces), numbers["[SEP]"]]
            types += [text_number] * (len(text_pieces) + 1)
        values = {"ids": ids, "mask": [1] * len(ids), "types": types}[gives]
        row = np.full(length, numbers["[PAD]"] if gives == "ids" else 0, np.int64)
        row[: len(values)] = values
        return row

    return apply


def texts_of(sample: Text) -> list[str]:
    """Return the texts of a sample: one, or a pair. Raises ValueError for anything else."""
    if isinstance(sample, bytes):
        return [sample.decode("utf-8")]
    texts = [sample] if isinstance(sample, str) else list(sample)
    if len(texts) not in (1, 2) or not all(isinstance(text, str) for text in texts):
        raise ValueError("a sample must be a string or a pair of strings")
    return texts


def truncate(pieces: Sequence[list[str]], max_pieces: int) -> None:
    """Remove pieces at the end of the longest text until there are at most `max_pieces`."""
    while sum(map(len, pieces)) > max_pieces:
        max(reversed(pieces), key=len).pop()


def pieces_of(text: str, vocabulary: Vocabulary) -> list[str]:
    """Return a text's pieces, as BERT's BertTokenizer finds them."""
    pieces = []
    for token in basic_tokens(text, lowercase=vocabulary.lowercase):
        pieces += word_pieces(token, vocabulary.numbers)
    return pieces


def located_pieces(text: str, vocabulary: Vocabulary) -> tuple[list[str], list[tuple[int, int]]]:
    """Return a text's pieces, and the characters at which each begins and ends.

    All pieces of a word whose length changes in tokenization have the extent of that word.
    """
    pieces: list[str] = []
    extents: list[tuple[int, int]] = []
    for match in re.finditer(r"\S+", text):
        pieces_of_word = pieces_of(match[0], vocabulary)
        lengths = [len(piece.removeprefix("##")) for piece in pieces_of_word]
        is_altered = sum(lengths) != len(match[0]) or "[UNK]" in pieces_of_word
        position = match.start()
        for length in lengths:
            extents.append(match.span() if is_altered else (position, position + length))
            position += length
        pieces += pieces_of_word
    return pieces, extents


def word_pieces(token: str, vocabulary: Mapping[str, int]) -> list[str]:
    """Return a token's longest pieces from the left; [UNK] for a token that has none.

    Pieces behind the first begin with ##.
    """
    if len(token) > _MAX_CHARACTERS:
        return ["[UNK]"]
    pieces: list[str] = []
    start = 0
    while start < len(token):
        prefix = "##" if start else ""
        ends = range(len(token), start, -1)
        end = next((end for end in ends if prefix + token[start:end] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + token[start:end])
        start = end
    return pieces


def basic_tokens(text: str, *, lowercase: bool) -> Iterable[str]:
    """Return a text's words; punctuation marks and Chinese characters are words of their own.

    They are those of BERT's BasicTokenizer: with `lowercase`, in lower case and without accents.
    """
    if not text.isascii():
        return _unicode_tokens(text, lowercase=lowercase)
    printable = text.translate(_ASCII_SPACES)
    return _ASCII_TOKEN.findall(printable.lower() if lowercase else printable)


def _unicode_tokens(text: str, *, lowercase: bool) -> Iterator[str]:
    """Yield the words of a text with any characters, one by one: it takes 30 times as long."""
    spaced = "".join(map(_spaced, unicodedata.normalize("NFC", text)))
    for token in spaced.split():
        plain = token
        if lowercase:
            decomposed = unicodedata.normalize("NFD", token.lower())
            plain = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
        for is_punctuation, characters in groupby(plain, key=_is_punctuation):
            joined = "".join(characters)
            yield from joined if is_punctuation else (joined,)


@lru_cache(maxsize=_MAX_CACHED)
def _spaced(character: str) -> str:
    """Return a character with the spaces that separate words; '' for one that is dropped."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if character in "\0�" or category.startswith("C"):
        return ""
    is_chinese = any(low <= ord(character) <= high for low, high in _CHINESE)
    return f" {character} " if is_chinese else character


@lru_cache(maxsize=_MAX_CACHED)
def _is_punctuation(character: str) -> bool:
    """Say whether Unicode calls it punctuation, or it is another visible sign of ASCII."""
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(character).startswith("P")
