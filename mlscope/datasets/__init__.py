"""Datasets in the layouts that people have on disk: samples and their ground truth by index.

A reader finds the samples of a folder or file and reads one when it is asked for. What is wrong
with a sample is raised when that sample is read, and costs that sample alone.
Does not know: where files come from (`mlscope.assets`), models, messages, services.
"""
