"""The collector: stores spans, queries, outputs and runs in the database, each exactly once.

Owns: runs, spans, queries and outputs in the database; whether a run is complete.
Hears: batches of spans, queries and outputs; runs completed, failed, interrupted.
Says: RunRecorded, RunIncomplete. Knows: no agent, no analysis.
"""
