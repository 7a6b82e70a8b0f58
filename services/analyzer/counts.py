"""Counts in sentences, as everything here says them."""

from mlscope.counts import be, counted, many, verb

__all__ = ("be", "counted", "many", "verb")
