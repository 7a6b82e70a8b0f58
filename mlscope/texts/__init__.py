"""Texts for people to read: aligned rows, short and printable cells, the lines of an answer."""
