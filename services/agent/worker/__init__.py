"""The process that measures: one opened predictor, its runs in blocks, its collectors.

It knows no broker and never imports the host: the messages between them are in `link`.
"""
