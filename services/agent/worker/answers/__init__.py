"""Answers: outputs checked, post-processed, kept and scored, and the samples that have none."""
