-- traced_runs --
-- Runs of an evaluation that have spans: of a run's attempts the one that counts.
SELECT counted.*, (
    SELECT coalesce(sum(count), 0)::int8 FROM batch
    WHERE batch.run_key = counted.run_key AND batch.kind = 0
) AS stored
FROM (
    SELECT DISTINCT ON (run)
        run, run_key, ts, attempt, agent, model, framework, device, batch_size, level, spans,
        dropped_batches, dropped_records, trace_batches, caveats,
        epoch_start_ns,
        (conditions ->> 'clock_offset_ns')::int8 AS clock_offset_ns,
        (conditions ->> 'clock_bound_ns')::int8 AS clock_bound_ns
    FROM run
    WHERE evaluation = %(evaluation)s
    ORDER BY run, (outcome = 'completed') DESC, attempt DESC
) AS counted
WHERE counted.spans > 0
ORDER BY counted.run;

-- span_page --
-- The spans of an attempt after one of them by start and id, each column a byte string of
-- big-endian integers; -1 is null.
SELECT
    string_agg(int8send(span), ''::bytea) AS span,
    string_agg(int8send(coalesce(parent, -1)), ''::bytea) AS parent,
    string_agg(int2send(level), ''::bytea) AS level,
    string_agg(int4send(name), ''::bytea) AS name,
    string_agg(int8send(start_ns), ''::bytea) AS start_ns,
    string_agg(int8send(duration_ns), ''::bytea) AS duration_ns,
    string_agg(int4send(thread), ''::bytea) AS thread,
    string_agg(int4send(query), ''::bytea) AS query,
    string_agg(int2send(kind), ''::bytea) AS kind,
    string_agg(int8send(coalesce(correlation, -1)), ''::bytea) AS correlation,
    string_agg(int4send(
        CASE
            WHEN kind IN (2, 3, 4, 6) AND jsonb_typeof(attributes -> 'device') = 'number'
                THEN (attributes ->> 'device')::numeric::int4
            ELSE -1
        END
    ), ''::bytea) AS device
FROM (
    SELECT
        span, parent, level, name, start_ns, duration_ns, thread, query, attributes, kind,
        correlation
    FROM span
    WHERE run_key = %(run_key)s AND ts = %(ts)s
        AND (start_ns, span) > (%(after_ns)s, %(after_span)s)
    ORDER BY start_ns, span
    LIMIT %(limit)s
) AS taken;

-- span_names --
-- Names of an attempt's spans by number.
SELECT name, text FROM span_name WHERE run_key = %(run_key)s;

-- sample_columns --
-- The values of an attempt's sampled series, each column a byte string of big-endian numbers.
SELECT
    string_agg(int8send(span), ''::bytea) AS span,
    string_agg(float8send((attributes ->> 'value')::numeric::float8), ''::bytea) AS value
FROM span
WHERE run_key = %(run_key)s AND ts = %(ts)s AND kind = 6
    AND jsonb_typeof(attributes -> 'value') = 'number';

-- units --
-- The unit of each sampled series of an attempt, by the number of its name.
SELECT DISTINCT ON (name) name, coalesce(attributes ->> 'unit', '') AS unit
FROM span
WHERE run_key = %(run_key)s AND ts = %(ts)s AND kind = 6
ORDER BY name;

-- query_columns --
-- The queries of an attempt, each column a byte string of big-endian integers; -1 is null.
SELECT
    string_agg(int4send(query), ''::bytea) AS query,
    string_agg(int8send(coalesce(due_ns, -1)), ''::bytea) AS due_ns,
    string_agg(int8send(issued_ns), ''::bytea) AS issued_ns,
    string_agg(int8send(started_ns), ''::bytea) AS started_ns,
    string_agg(int8send(ended_ns), ''::bytea) AS ended_ns,
    string_agg(int2send(status), ''::bytea) AS status
FROM (
    SELECT query, due_ns, issued_ns, started_ns, ended_ns, status
    FROM query
    WHERE run_key = %(run_key)s AND ts = %(ts)s
    ORDER BY query
    LIMIT %(limit)s
) AS taken;

-- missing_batches --
-- Stretches of batches of spans that are not stored, with the batches before and after each.
SELECT last + 1 AS first, next - 1 AS last
FROM (
    SELECT sequence AS last, lead(sequence, 1, %(batches)s) OVER (ORDER BY sequence) AS next
    FROM (
        SELECT -1 AS sequence
        UNION ALL
        SELECT sequence FROM batch WHERE run_key = %(run_key)s AND kind = 0
    ) AS stored
) AS stretch
WHERE next > last + 1
ORDER BY last
LIMIT 1000;

-- batch_range --
-- When the spans of a batch began and ended.
SELECT min(start_ns) AS start_ns, max(start_ns + greatest(duration_ns, 0)) AS end_ns
FROM span
WHERE run_key = %(run_key)s AND ts = %(ts)s AND batch = %(batch)s;

-- span_attributes --
-- What else is stored of one span, and the number of its layer, -1 without one.
SELECT
    span.block,
    coalesce(span.attributes::text, '') AS attributes,
    coalesce(span_tree.layer, -1) AS layer
FROM span
LEFT JOIN span_tree ON span_tree.run_key = span.run_key AND span_tree.span = span.span
WHERE span.run_key = %(run_key)s AND span.ts = %(ts)s
    AND span.start_ns = %(start_ns)s AND span.span = %(span)s;

-- timeline --
-- The description of a run's timeline, if it was made of the spans that are stored now.
SELECT description FROM timeline
WHERE run_key = %(run_key)s AND format = %(format)s AND stored = %(stored)s;

-- timeline_parts --
-- The parts of a file of a timeline, in order.
SELECT content FROM timeline_part
WHERE run_key = %(run_key)s AND resolution = %(resolution)s
ORDER BY part;

-- lock_timeline --
-- One analyzer at a time writes a run's timeline.
SELECT pg_advisory_xact_lock(hashtextextended('timeline ' || %(run_key)s::text, 0));

-- delete_timeline --
-- Delete a run's timeline before it is written again.
DELETE FROM timeline WHERE run_key = %(run_key)s;

-- insert_timeline --
-- Write a timeline, without its parts.
INSERT INTO timeline (run_key, evaluation, format, stored, description, bytes)
VALUES (
    %(run_key)s, %(evaluation)s, %(format)s, %(stored)s, %(description)s, %(bytes)s
);

-- insert_timeline_part --
-- Write a part of a file of a timeline.
INSERT INTO timeline_part (run_key, resolution, part, content)
VALUES (%(run_key)s, %(resolution)s, %(part)s, %(content)s);

-- delete_old_timelines --
-- Delete the timelines made longest ago, beyond a size of all together.
DELETE FROM timeline
WHERE run_key IN (
    SELECT newest.run_key
    FROM (
        SELECT run_key, sum(bytes) OVER (ORDER BY made_at DESC, run_key) AS total FROM timeline
    ) AS newest
    WHERE newest.total > %(most_bytes)s
) AND run_key <> %(run_key)s;
