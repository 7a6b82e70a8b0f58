-- traced_runs --
-- Runs of an evaluation that have spans: of a run's attempts the one that counts.
SELECT counted.*
FROM (
    SELECT DISTINCT ON (run)
        run, run_key, ts, attempt, agent, model, framework, device, batch_size, level, spans,
        epoch_start_ns,
        (conditions ->> 'clock_offset_ns')::int8 AS clock_offset_ns,
        (conditions ->> 'clock_bound_ns')::int8 AS clock_bound_ns
    FROM run
    WHERE evaluation = %(evaluation)s
    ORDER BY run, (outcome = 'completed') DESC, attempt DESC
) AS counted
WHERE counted.spans > 0
ORDER BY counted.run;

-- spans_after --
-- Spans of an attempt by their start, from one on; parents as captured, else as found.
SELECT
    span.span,
    coalesce(span_tree.parent, span.parent) AS parent,
    span_tree.layer,
    span.level,
    coalesce(span_name.text, '#' || span.name) AS name,
    span.start_ns,
    span.duration_ns,
    span.thread,
    span.query,
    span.block,
    span.kind,
    coalesce(span.correlation, -1) AS correlation,
    coalesce(span_tree.method, '') AS method,
    coalesce(span.attributes::text, '') AS attributes
FROM span
LEFT JOIN span_tree ON span_tree.run_key = span.run_key AND span_tree.span = span.span
LEFT JOIN span_name ON span_name.run_key = span.run_key AND span_name.name = span.name
WHERE span.run_key = %(run_key)s AND span.ts = %(ts)s
    AND (span.start_ns, span.span) > (%(start_ns)s, %(span)s)
ORDER BY span.start_ns, span.span
LIMIT %(limit)s;
