"""The scheduler: which agent runs what, when, and how each evaluation ends.

Owns: the decisions of every evaluation, and the load of remote runs.
Receives: `evaluate`, `cancel`; reports on runs by agents, collector and analyzer; the catalog.
Publishes: Evaluation*, RunStarted, RunIssued, RunInterrupted, QueriesAnswered of remote runs.
Does not know: models, frameworks, spans, tables, the database.

`evaluation/` decides and `placement/` plans, both pure; `remote_load/` issues loads.
"""
