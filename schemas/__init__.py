"""The contract between the services: the messages of one evaluation, in their order.

    client    ─Evaluate──────────────────────────────▶ scheduler
    scheduler ─EvaluationRequested, EvaluationPlanned, RunStarted…▶ log;  ─start (WorkOrder)▶ agent
    agent     ─TraceCaptured…, QueriesAnswered…, OutputsPredicted…, RunCompleted | RunFailed▶ log
    collector ─rows▶ database;  ─RunRecorded | RunIncomplete▶ log
    scheduler ─EvaluationMeasured▶ analyzer ─AnalysisCompleted▶ scheduler ─EvaluationAnalyzed▶

Owns: messages, subjects, codec. Does not know: services, transports, clocks. Pure.
"""
