"""Answers to requests about stored evaluations."""
