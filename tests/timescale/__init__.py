"""Tests on a real TimescaleDB: their fixture ends with the last test of this folder."""
