"""Colours of names: stable, the same in Python and in the browser's module."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import services.gateway
from services.gateway.pages.colours import HUE_OF_WORD, HUES, OTHER, SERIES, colour_of, hash_of

MODULE = (Path(services.gateway.__file__).parent / "static/js/colours.js").read_text()
EVERY = {shade for shades in HUES.values() for shade in shades}


def test_the_browsers_module_has_the_same_colours_words_and_order() -> None:
    hues = re.findall(r"^  (\w+): \[(.*)\],$", MODULE, re.MULTILINE)
    assert {name: tuple(re.findall(r'"(#\w+)"', shades)) for name, shades in hues} == dict(HUES)
    assert [name for name, _ in hues] == list(HUES)
    assert tuple(re.findall(r'^  \["(\w+)", "(\w+)"\],$', MODULE, re.MULTILINE)) == HUE_OF_WORD
    assert tuple(re.findall(r'^  "(#\w+)",$', MODULE, re.MULTILINE)) == SERIES
    assert f'OTHER = "{OTHER}"' in MODULE


@given(st.text())
def test_every_name_has_one_colour_whatever_its_case(name: str) -> None:
    assert colour_of(name) in EVERY | {OTHER}
    assert colour_of(name) == colour_of(name.swapcase()) or not name.isascii()


def test_what_does_the_same_has_the_same_hue() -> None:
    blues, teals = HUES["blue"], HUES["teal"]
    assert {colour_of(name) for name in ("Conv", "Conv2d", "FusedConv", "CONV_2D")} <= {*blues}
    assert {colour_of(name) for name in ("Relu", "ReLU6", "Clip", "GELU")} <= {*teals}
    assert colour_of("Conv 2-D") == colour_of("conv2d")


def test_the_hash_is_that_of_fnv() -> None:
    assert (hash_of(""), hash_of("a"), hash_of("foobar")) == (0x811C9DC5, 0xE40C292C, 0xBF9CF968)


def test_a_name_without_letters_is_grey() -> None:
    assert colour_of("") == colour_of("()") == OTHER
