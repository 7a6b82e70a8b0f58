"""Evaluations as one file, asked for again elsewhere, and what differs then. Pure."""
