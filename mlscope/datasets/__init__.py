"""Datasets by the layout people have on disk: read when asked for, with the truth of each sample.

Does: find the samples of a folder or file, read one at a time, say what is wrong with which.
Does not know: where files come from (`mlscope.assets`), models, messages, services.
"""
