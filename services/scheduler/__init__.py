"""The scheduler: who runs what, when, and what becomes of it.

Owns: the decisions of every evaluation, and the load of remote runs.
Hears: `evaluate`, `cancel`; what agents, collector and analyzer say of runs; the catalog.
Says: Evaluation*, RunStarted, RunIssued, RunInterrupted, QueriesAnswered of remote runs.
Does not know: models, frameworks, spans, tables, the database.
"""
