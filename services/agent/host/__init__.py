"""The process that serves: takes orders, starts a worker a session, publishes what it hands over.

It never imports the worker: what passes between them is in `link`.
"""
