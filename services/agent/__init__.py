"""The agent: runs what the scheduler orders, on this machine, and says what it saw.

Owns: opened predictors (one worker process a session), samples, pipelines, layer capture.
Hears: `start`, `stop`, `close`, `query`, `finish` addressed to it.
Says: AgentAnnounced, AgentLeft, RunReady, TraceCaptured, QueriesAnswered, OutputsPredicted,
RunCompleted, RunFailed; holds the lease `agent-<id>`.
Knows: the contract and the bus. Does not know: evaluations beyond their orders, the database.

    service ── orders ──▶ execution ── channel ──▶ worker: session ─▶ engine ─▶ predictor
       ◀─ facts ─ outbox ◀── ring and spool of finished batches ◀── recorder
"""
