-- What collectors write: runs, the rows of their batches, and a marker for every batch.
-- run_key is schemas.identity.run_key(evaluation, run, attempt); times are nanoseconds from the
-- attempt's clock origin; ts, the evaluation's start, only says in which chunk a row lies.

CREATE TABLE run (
    run_key int8 PRIMARY KEY,
    evaluation text NOT NULL,
    run text NOT NULL,
    attempt int4 NOT NULL,
    agent text NOT NULL,
    session text NOT NULL,
    ts timestamptz NOT NULL,
    scenario text NOT NULL,
    parameters jsonb NOT NULL,
    pacing text NOT NULL,
    level int2 NOT NULL,
    level_asked int2 NOT NULL,
    level_note text NOT NULL,
    batch_size int4 NOT NULL,
    planned_queries int4 NOT NULL,
    model text NOT NULL,
    model_version text NOT NULL,
    model_digest text NOT NULL,
    dataset text NOT NULL,
    framework text NOT NULL,
    framework_version text NOT NULL,
    device text NOT NULL,
    outcome text NOT NULL,
    error text NOT NULL,
    message text NOT NULL,
    interrupted text,
    state text NOT NULL,
    cause text NOT NULL,
    trace_batches int4 NOT NULL,
    query_batches int4 NOT NULL,
    output_batches int4 NOT NULL,
    spans int8 NOT NULL,
    queries int8 NOT NULL,
    outputs int8 NOT NULL,
    failed_queries int8 NOT NULL,
    dropped_batches int4 NOT NULL,
    monotonic_ns int8,
    monotonic_end_ns int8,
    epoch_start_ns int8,
    epoch_end_ns int8,
    boot_id text NOT NULL,
    conditions jsonb NOT NULL,
    blocks jsonb NOT NULL,
    caveats jsonb NOT NULL,
    ended_at timestamptz NOT NULL DEFAULT now(),
    recorded_at timestamptz,
    purged_at timestamptz
);
COMMENT ON TABLE run IS 'One row an attempt of a run that ended, well or badly.';
COMMENT ON COLUMN run.run_key IS 'Foreign key of every row of the attempt.';
COMMENT ON COLUMN run.evaluation IS 'The evaluation''s id.';
COMMENT ON COLUMN run.run IS 'The run''s id within its evaluation.';
COMMENT ON COLUMN run.attempt IS 'From 1; a higher one replaces those before it.';
COMMENT ON COLUMN run.agent IS 'The agent that executed it.';
COMMENT ON COLUMN run.session IS 'The session it ran in: one opened predictor.';
COMMENT ON COLUMN run.ts IS 'When the evaluation was requested.';
COMMENT ON COLUMN run.scenario IS 'How queries arrived.';
COMMENT ON COLUMN run.parameters IS 'The scenario''s parameters, defaults filled in.';
COMMENT ON COLUMN run.pacing IS 'local: the worker paced; remote: the scheduler issued.';
COMMENT ON COLUMN run.level IS 'The deepest level traced, 0 none to 7 full.';
COMMENT ON COLUMN run.level_asked IS 'The level asked for.';
COMMENT ON COLUMN run.level_note IS 'Why the level is not the one asked for.';
COMMENT ON COLUMN run.batch_size IS 'Samples in a query.';
COMMENT ON COLUMN run.planned_queries IS 'Queries planned for one block.';
COMMENT ON COLUMN run.model IS 'The model''s name.';
COMMENT ON COLUMN run.model_version IS 'The model''s version.';
COMMENT ON COLUMN run.model_digest IS 'sha256 of the model''s manifest.';
COMMENT ON COLUMN run.dataset IS 'The dataset, name:version.';
COMMENT ON COLUMN run.framework IS 'The framework that executed it.';
COMMENT ON COLUMN run.framework_version IS 'The framework''s version.';
COMMENT ON COLUMN run.device IS 'cpu, cuda …';
COMMENT ON COLUMN run.outcome IS 'completed, failed or interrupted.';
COMMENT ON COLUMN run.error IS 'The kind of failure; empty when completed.';
COMMENT ON COLUMN run.message IS 'The failure in words; empty when completed.';
COMMENT ON COLUMN run.interrupted IS 'Why the scheduler gave the attempt up, if it did.';
COMMENT ON COLUMN run.state IS 'ended, recorded, incomplete or interrupted.';
COMMENT ON COLUMN run.cause IS 'Id of the fact that ended it; facts that follow derive theirs.';
COMMENT ON COLUMN run.trace_batches IS 'Batches of spans announced.';
COMMENT ON COLUMN run.query_batches IS 'Batches of queries announced.';
COMMENT ON COLUMN run.output_batches IS 'Batches of outputs announced.';
COMMENT ON COLUMN run.spans IS 'Spans announced.';
COMMENT ON COLUMN run.queries IS 'Queries announced.';
COMMENT ON COLUMN run.outputs IS 'Outputs announced.';
COMMENT ON COLUMN run.failed_queries IS 'Queries that failed, as announced.';
COMMENT ON COLUMN run.dropped_batches IS 'Batches the agent lost: ring and spool were full.';
COMMENT ON COLUMN run.monotonic_ns IS 'The clock''s origin: CLOCK_MONOTONIC of that boot, ns.';
COMMENT ON COLUMN run.monotonic_end_ns IS 'The same clock at the end, ns.';
COMMENT ON COLUMN run.epoch_start_ns IS 'The origin in epoch ns, mapped at the start.';
COMMENT ON COLUMN run.epoch_end_ns IS 'The end in epoch ns; a step of the wall clock shows here.';
COMMENT ON COLUMN run.boot_id IS 'The boot whose clock it is.';
COMMENT ON COLUMN run.conditions IS 'Versions, effective settings, seeds, checksums, noise.';
COMMENT ON COLUMN run.blocks IS 'Block statistics as the worker computed them.';
COMMENT ON COLUMN run.caveats IS 'Notes a reader must see beside the numbers.';
COMMENT ON COLUMN run.ended_at IS 'When the collector heard of the end.';
COMMENT ON COLUMN run.recorded_at IS 'When completeness was decided.';
COMMENT ON COLUMN run.purged_at IS 'When the batches were dropped from the streams.';
CREATE INDEX run_evaluation ON run (evaluation);
CREATE INDEX run_waiting ON run (ended_at) WHERE purged_at IS NULL;

CREATE TABLE batch (
    run_key int8 NOT NULL,
    kind int2 NOT NULL,
    sequence int4 NOT NULL,
    count int4 NOT NULL,
    PRIMARY KEY (run_key, kind, sequence)
);
COMMENT ON TABLE batch IS 'A marker for every batch stored, written with its rows: none twice.';
COMMENT ON COLUMN batch.run_key IS 'The attempt it belongs to.';
COMMENT ON COLUMN batch.kind IS '0 spans, 1 queries, 2 outputs.';
COMMENT ON COLUMN batch.sequence IS 'Its place among those of its kind, from 0.';
COMMENT ON COLUMN batch.count IS 'Rows in it.';

CREATE TABLE span (
    ts timestamptz NOT NULL,
    run_key int8 NOT NULL,
    batch int4 NOT NULL,
    span int8 NOT NULL,
    parent int8,
    level int2 NOT NULL,
    name int4 NOT NULL,
    start_ns int8 NOT NULL,
    duration_ns int8 NOT NULL,
    thread int4 NOT NULL,
    query int4 NOT NULL,
    block int2 NOT NULL,
    attributes jsonb
);
COMMENT ON TABLE span IS 'Timed intervals as captured; never updated.';
COMMENT ON COLUMN span.ts IS 'The evaluation''s start.';
COMMENT ON COLUMN span.run_key IS 'The attempt.';
COMMENT ON COLUMN span.batch IS 'The batch it came in.';
COMMENT ON COLUMN span.span IS 'Its id, unique in the attempt.';
COMMENT ON COLUMN span.parent IS 'The span around it, where known at capture.';
COMMENT ON COLUMN span.level IS '1 application, 2 model, 3 framework, 4 library, 5 system …';
COMMENT ON COLUMN span.name IS 'Its name, in span_name.';
COMMENT ON COLUMN span.start_ns IS 'Start, ns from the attempt''s origin.';
COMMENT ON COLUMN span.duration_ns IS 'Duration, ns.';
COMMENT ON COLUMN span.thread IS 'The thread it ran on, as numbered by the agent.';
COMMENT ON COLUMN span.query IS 'The query it served; -1 none.';
COMMENT ON COLUMN span.block IS 'The block of the run.';
COMMENT ON COLUMN span.attributes IS 'What else its source said of it.';
CREATE INDEX span_run ON span (run_key, start_ns);

CREATE TABLE span_name (
    run_key int8 NOT NULL,
    name int4 NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (run_key, name)
);
COMMENT ON TABLE span_name IS 'Names of spans, stored once an attempt.';
COMMENT ON COLUMN span_name.run_key IS 'The attempt.';
COMMENT ON COLUMN span_name.name IS 'The number spans carry.';
COMMENT ON COLUMN span_name.text IS 'The name.';

CREATE TABLE query (
    ts timestamptz NOT NULL,
    run_key int8 NOT NULL,
    batch int4 NOT NULL,
    query int4 NOT NULL,
    block int2 NOT NULL,
    size int4 NOT NULL,
    due_ns int8,
    issued_ns int8 NOT NULL,
    started_ns int8 NOT NULL,
    ended_ns int8 NOT NULL,
    service_ns int8,
    status int2 NOT NULL,
    error text
);
COMMENT ON TABLE query IS 'Issued units of load and how they were answered.';
COMMENT ON COLUMN query.ts IS 'The evaluation''s start.';
COMMENT ON COLUMN query.run_key IS 'The attempt.';
COMMENT ON COLUMN query.batch IS 'The batch it came in.';
COMMENT ON COLUMN query.query IS 'Its number in the run.';
COMMENT ON COLUMN query.block IS 'The block of the run.';
COMMENT ON COLUMN query.size IS 'Samples in it.';
COMMENT ON COLUMN query.due_ns IS 'When it should be issued, ns; null in a closed loop.';
COMMENT ON COLUMN query.issued_ns IS 'When it was issued, ns.';
COMMENT ON COLUMN query.started_ns IS 'When work on it began, ns.';
COMMENT ON COLUMN query.ended_ns IS 'When its answer was there, ns.';
COMMENT ON COLUMN query.service_ns IS 'The agent''s own time for it, ns; null when unknown.';
COMMENT ON COLUMN query.status IS '0 answered, 1 failed, 2 lost.';
COMMENT ON COLUMN query.error IS 'Why it failed.';
CREATE INDEX query_run ON query (run_key, query);

CREATE TABLE output (
    ts timestamptz NOT NULL,
    run_key int8 NOT NULL,
    batch int4 NOT NULL,
    query int4 NOT NULL,
    sample int4 NOT NULL,
    features jsonb NOT NULL
);
COMMENT ON TABLE output IS 'What the model said of a sample.';
COMMENT ON COLUMN output.ts IS 'The evaluation''s start.';
COMMENT ON COLUMN output.run_key IS 'The attempt.';
COMMENT ON COLUMN output.batch IS 'The batch it came in.';
COMMENT ON COLUMN output.query IS 'The query that carried the sample.';
COMMENT ON COLUMN output.sample IS 'The sample''s index in its dataset.';
COMMENT ON COLUMN output.features IS 'Labels with probabilities, boxes …';
CREATE INDEX output_run ON output (run_key, query);

CREATE VIEW spans AS
SELECT
    run.evaluation,
    run.run,
    run.attempt,
    run.agent,
    run.model,
    span.span,
    span.parent,
    span.level,
    span_name.text AS name,
    span.start_ns,
    span.duration_ns,
    span.thread,
    span.query,
    span.block,
    span.attributes,
    span.ts,
    span.run_key
FROM span
JOIN run ON run.run_key = span.run_key AND run.ts = span.ts
JOIN span_name ON span_name.run_key = span.run_key AND span_name.name = span.name;
COMMENT ON VIEW spans IS 'Spans of ended runs with their names: what to query by hand.';
