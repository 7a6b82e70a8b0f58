-- mark_batches --
-- Claim batches for this transaction; answers those that nobody stored before.
INSERT INTO batch (run_key, kind, sequence, count)
SELECT run_key, kind, sequence, count
FROM unnest(%(run_keys)s::int8[], %(kinds)s::int2[], %(sequences)s::int4[], %(counts)s::int4[])
    AS claimed (run_key, kind, sequence, count)
ORDER BY run_key, kind, sequence
ON CONFLICT DO NOTHING
RETURNING run_key, kind, sequence;

-- name_spans --
-- Keep names of spans; known ones stay.
INSERT INTO span_name (run_key, name, text)
SELECT run_key, name, text
FROM unnest(%(run_keys)s::int8[], %(names)s::int4[], %(texts)s::text[])
    AS named (run_key, name, text)
ORDER BY run_key, name
ON CONFLICT DO NOTHING;

-- copy_span --
-- Take rows of spans; the order is that of rows.LAYOUTS.
COPY span (
    ts, run_key, batch, span, parent, level, name,
    start_ns, duration_ns, thread, query, block, attributes
) FROM STDIN (FORMAT BINARY);

-- copy_linked_span --
-- Take rows of spans with what links them; other spans keep the columns' defaults.
COPY span (
    ts, run_key, batch, span, parent, level, name,
    start_ns, duration_ns, thread, query, block, kind, correlation, attributes
) FROM STDIN (FORMAT BINARY);

-- copy_query --
-- Take rows of queries; the order is that of rows.LAYOUTS.
COPY query (
    ts, run_key, batch, query, block, size, due_ns,
    issued_ns, started_ns, ended_ns, service_ns, status, failed, error
) FROM STDIN (FORMAT BINARY);

-- copy_output --
-- Take rows of outputs; the order is that of rows.LAYOUTS.
COPY output (ts, run_key, batch, query, sample, features) FROM STDIN (FORMAT BINARY);

-- end_run --
-- Keep how an attempt ended, once. A late word on an interrupted one fills in what it says.
INSERT INTO run (
    run_key, evaluation, run, attempt, agent, session, ts, scenario, parameters, pacing,
    level, level_asked, level_note, batch_size, planned_queries, model, model_version,
    model_digest, dataset, framework, framework_version, device, outcome, error, message,
    interrupted, state, cause, trace_batches, query_batches, output_batches, spans, queries,
    outputs, failed_queries, dropped_batches, monotonic_ns, monotonic_end_ns, epoch_start_ns,
    epoch_end_ns, boot_id, conditions, blocks, caveats, failed_samples,
    variant, dropped_records
) VALUES (
    %(run_key)s, %(evaluation)s, %(run)s, %(attempt)s, %(agent)s, %(session)s, %(ts)s,
    %(scenario)s, %(parameters)s, %(pacing)s, %(level)s, %(level_asked)s, %(level_note)s,
    %(batch_size)s, %(planned_queries)s, %(model)s, %(model_version)s, %(model_digest)s,
    %(dataset)s, %(framework)s, %(framework_version)s, %(device)s, %(outcome)s, %(error)s,
    %(message)s, %(interrupted)s, %(state)s, %(cause)s, %(trace_batches)s, %(query_batches)s,
    %(output_batches)s, %(spans)s, %(queries)s, %(outputs)s, %(failed_queries)s,
    %(dropped_batches)s, %(monotonic_ns)s, %(monotonic_end_ns)s, %(epoch_start_ns)s,
    %(epoch_end_ns)s, %(boot_id)s, %(conditions)s, %(blocks)s, %(caveats)s,
    %(failed_samples)s, %(variant)s, %(dropped_records)s
)
ON CONFLICT (run_key) DO UPDATE SET
    agent = excluded.agent,
    level = excluded.level,
    level_note = excluded.level_note,
    framework_version = excluded.framework_version,
    outcome = excluded.outcome,
    error = excluded.error,
    message = excluded.message,
    state = excluded.state,
    cause = excluded.cause,
    trace_batches = excluded.trace_batches,
    query_batches = excluded.query_batches,
    output_batches = excluded.output_batches,
    spans = excluded.spans,
    queries = excluded.queries,
    outputs = excluded.outputs,
    failed_queries = excluded.failed_queries,
    failed_samples = excluded.failed_samples,
    dropped_batches = excluded.dropped_batches,
    dropped_records = excluded.dropped_records,
    monotonic_ns = excluded.monotonic_ns,
    monotonic_end_ns = excluded.monotonic_end_ns,
    epoch_start_ns = excluded.epoch_start_ns,
    epoch_end_ns = excluded.epoch_end_ns,
    boot_id = excluded.boot_id,
    conditions = excluded.conditions,
    blocks = excluded.blocks,
    caveats = excluded.caveats,
    ended_at = excluded.ended_at
WHERE run.state = 'interrupted' AND excluded.state <> 'interrupted';

-- interrupt_run --
-- Mark an attempt that the scheduler gave up, whatever its agent said of it.
UPDATE run SET interrupted = %(interrupted)s
WHERE run_key = %(run_key)s AND interrupted IS NULL;

-- interrupt_runs --
-- Mark those of some attempts that the scheduler gave up and that are not marked.
UPDATE run SET interrupted = given_up.cause
FROM unnest(%(run_keys)s::int8[], %(causes)s::text[]) AS given_up (run_key, cause)
WHERE run.run_key = given_up.run_key AND run.interrupted IS NULL;

-- waiting_runs --
-- Attempts that ended and of which nobody has said whether they are complete: what was announced
-- and what is stored, by kind of batch. Interrupted ones are
-- among them until their rows were counted: their agents may never speak again.
SELECT
    run.run_key, run.evaluation, run.run, run.attempt, run.cause,
    run.state = 'interrupted' AS is_interrupted,
    run.pacing = 'remote' AND run.outcome = 'failed' AND run.query_batches = 0 AS may_get_queries,
    run.trace_batches, run.query_batches, run.output_batches,
    count(*) FILTER (WHERE kind = 0 AND sequence < trace_batches) AS stored_trace_batches,
    count(*) FILTER (WHERE kind = 1 AND sequence < query_batches) AS stored_query_batches,
    count(*) FILTER (WHERE kind = 2 AND sequence < output_batches) AS stored_output_batches,
    count(kind) AS batches,
    coalesce(sum(count) FILTER (WHERE kind = 0), 0)::int8 AS stored_spans,
    coalesce(sum(count) FILTER (WHERE kind = 1), 0)::int8 AS stored_queries,
    coalesce(sum(count) FILTER (WHERE kind = 2), 0)::int8 AS stored_outputs
FROM run
LEFT JOIN batch ON batch.run_key = run.run_key
WHERE run.purged_at IS NULL
    AND (run.state = 'ended' OR (run.state = 'interrupted' AND run.recorded_at IS NULL))
GROUP BY run.run_key
ORDER BY run.ended_at;

-- missing_runs --
-- Those of some attempts that are not here whole: a run's row comes before its batches.
SELECT run_key FROM unnest(%(run_keys)s::int8[]) AS expected (run_key)
WHERE NOT EXISTS (
    SELECT FROM run WHERE run.run_key = expected.run_key AND run.recorded_at IS NOT NULL
);

-- unsaved_evaluations --
-- How many evaluations have an attempt that ended and that no backup has, or other rows that none
-- has, as those given; and of how many some of these have left the log, too.
WITH unsaved AS (
    SELECT evaluation, purged_at IS NOT NULL AS has_left
    FROM run
    WHERE NOT EXISTS (SELECT FROM saved_run WHERE saved_run.run_key = run.run_key)
    UNION ALL
    SELECT unnest(%(evaluations)s::text[]), false
    UNION ALL
    SELECT unnest(%(left)s::text[]), true
)
SELECT
    count(DISTINCT evaluation) AS unsaved,
    count(DISTINCT evaluation) FILTER (WHERE has_left) AS database_only
FROM unsaved;

-- saved_up_to --
-- Up to which message of each stream a backup has the batches.
SELECT stream, sequence FROM saved_up_to;

-- left_up_to --
-- Up to which message of each stream batches left that no backup had.
SELECT stream, sequence FROM left_up_to;

-- note_left_up_to --
-- Note up to which message of a stream those left that no backup has.
INSERT INTO left_up_to (stream, sequence) VALUES (%(stream)s::text, %(sequence)s::int8)
ON CONFLICT (stream) DO UPDATE SET sequence = excluded.sequence;

-- forget_stream --
-- Forget what was noted of the messages of a stream that was made anew.
WITH forgotten AS (DELETE FROM left_up_to WHERE stream = %(stream)s)
DELETE FROM saved_up_to WHERE stream = %(stream)s;

-- has_left_unsaved --
-- Whether messages left a stream that, as rows, no backup has since.
SELECT EXISTS (
    SELECT FROM left_up_to LEFT JOIN saved_up_to USING (stream)
    WHERE left_up_to.sequence > coalesce(saved_up_to.sequence, 0)
) AS has_left;

-- unknown_runs --
-- Those of some attempts that have no row. Where agents say how they ended, a row that only says
-- that the attempt was given up is none.
SELECT run_key FROM unnest(%(run_keys)s::int8[]) AS expected (run_key)
WHERE NOT EXISTS (
    SELECT FROM run
    WHERE run.run_key = expected.run_key
        AND (%(are_interruptions)s::bool OR run.state <> 'interrupted')
);

-- count_batches --
-- How many of the announced batches of each kind of an attempt are stored.
SELECT
    count(*) FILTER (WHERE kind = 0 AND sequence < %(trace_batches)s) AS trace,
    count(*) FILTER (WHERE kind = 1 AND sequence < %(query_batches)s) AS query,
    count(*) FILTER (WHERE kind = 2 AND sequence < %(output_batches)s) AS output
FROM batch WHERE run_key = %(run_key)s;

-- server_start --
-- When the server was started.
SELECT pg_postmaster_start_time() AS started;

-- stored_up_to --
-- Up to which message the rows of each durable are here.
SELECT durable, sequence FROM stored_up_to;

-- note_stored_up_to --
-- Note up to which message the rows of durables are here.
INSERT INTO stored_up_to (durable, sequence)
SELECT durable, sequence
FROM unnest(%(durables)s::text[], %(sequences)s::int8[]) AS acknowledged (durable, sequence)
ORDER BY durable
ON CONFLICT (durable) DO UPDATE SET sequence = excluded.sequence;

-- failed_queries --
-- Count the stored queries of an attempt that did not succeed.
SELECT count(*) AS failed FROM query WHERE run_key = %(run_key)s AND status <> 0;

-- settle_run --
-- Note that an attempt's completeness was announced, and of how many batches, unless its agent
-- spoke meanwhile: then it is decided anew. An interrupted one stays so, for a late word to fill in.
UPDATE run SET state = %(state)s, settled_batches = %(batches)s, recorded_at = now()
WHERE run_key = %(run_key)s AND state = %(was)s;

-- purgeable_runs --
-- Settled attempts whose messages are still in the streams. `is_only_attempt` says
-- that no other attempt of the run can be under way: it completed and was not given up. A page at a
-- time, behind the one before, so those that must stay hold up no others.
SELECT
    run_key, evaluation, run, ended_at,
    outcome = 'completed' AND interrupted IS NULL AS is_only_attempt,
    EXISTS (SELECT FROM saved_run WHERE saved_run.run_key = run.run_key) AS is_saved,
    coalesce(settled_batches, 0) AS batches
FROM run
WHERE purged_at IS NULL AND state <> 'ended' AND recorded_at IS NOT NULL
    AND (ended_at, run_key) > (%(behind)s::timestamptz, %(behind_key)s::int8)
ORDER BY ended_at, run_key
LIMIT %(most)s;

-- purged_runs --
-- Note that the messages of attempts are gone from the streams.
UPDATE run SET purged_at = now() WHERE run_key = ANY(%(run_keys)s::int8[]);

-- unjudged_runs --
-- A page of attempts of which it is not noted whether everybody may see them, by run key.
SELECT run_key, evaluation
FROM run
WHERE run_key > %(after)s AND NOT EXISTS (
    SELECT FROM run_visibility WHERE run_visibility.run_key = run.run_key
)
ORDER BY run_key
LIMIT %(most)s;

-- note_visibility --
-- Note whether everybody may see the rows of attempts. What is noted stays.
INSERT INTO run_visibility (run_key, evaluation, is_visible)
SELECT run_key, evaluation, is_visible
FROM unnest(%(run_keys)s::int8[], %(evaluations)s::text[], %(are_visible)s::bool[])
    AS noted (run_key, evaluation, is_visible)
ORDER BY run_key
ON CONFLICT DO NOTHING;
