"""Tests of the shipped catalog: what its models answer, that they run, that they build."""
