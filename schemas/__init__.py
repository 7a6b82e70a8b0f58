"""The contract: the story of one evaluation in the names of its messages.

    client    ─Evaluate──────────────────────────────▶ scheduler
    scheduler ─EvaluationRequested, EvaluationPlanned, RunStarted…▶ log;  ─start (WorkOrder)▶ agent
    agent     ─TraceCaptured…, QueriesAnswered…, OutputsPredicted…, RunCompleted | RunFailed▶
    collector ─rows▶ database;  ─RunRecorded | RunIncomplete▶
    scheduler ─EvaluationMeasured▶ analyzer ─AnalysisCompleted▶ scheduler ─EvaluationAnalyzed▶

Owns: messages, subjects, codec. Knows: no service, no transport, no clock.
"""
