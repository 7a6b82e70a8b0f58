"""The agent: carries out the scheduler's orders on this machine and publishes what it measured.

Owns: opened predictors (one worker process a session), samples, pipelines, layer capture.
Answers: `start`, `stop`, `close`, `query`, `finish` addressed to it.
Publishes: AgentAnnounced, AgentLeft, RunReady, TraceCaptured, QueriesAnswered, OutputsPredicted,
RunCompleted, RunFailed; holds the lease `agent-<id>`.
Knows: the contract and the bus. Does not know: evaluations beyond their orders, the database.

    service ── orders ──▶ execution ── channel ──▶ worker: session ─▶ group ─▶ predictor
       ◀─ facts ─ outbox ◀── ring and spool of finished batches ◀── recorder
"""
