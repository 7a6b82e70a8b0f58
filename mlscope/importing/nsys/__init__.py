"""Nsight Systems: its SQLite export as a recording."""
