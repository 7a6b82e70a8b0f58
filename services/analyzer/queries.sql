-- attempts --
-- Every recorded attempt of an evaluation, as rows of the table run.
SELECT
    run_key, run, attempt, agent, session, scenario, parameters, pacing, level, level_asked,
    level_note, batch_size, model, model_version, dataset, framework, framework_version, device,
    outcome, state, error, message, interrupted, spans, queries, failed_queries,
    dropped_batches, dropped_records, variant, blocks, conditions, caveats, ts
FROM run
WHERE evaluation = %(evaluation)s
ORDER BY run, attempt;

-- query_columns --
-- The first queries of an attempt, each column a byte string of big-endian integers; -1 is null.
SELECT
    string_agg(int4send(query), ''::bytea) AS query,
    string_agg(int2send(block), ''::bytea) AS block,
    string_agg(int4send(size), ''::bytea) AS size,
    string_agg(int8send(coalesce(due_ns, -1)), ''::bytea) AS due_ns,
    string_agg(int8send(issued_ns), ''::bytea) AS issued_ns,
    string_agg(int8send(started_ns), ''::bytea) AS started_ns,
    string_agg(int8send(ended_ns), ''::bytea) AS ended_ns,
    string_agg(int8send(coalesce(service_ns, -1)), ''::bytea) AS service_ns,
    string_agg(int2send(status), ''::bytea) AS status,
    string_agg(int4send(coalesce(failed, -1)), ''::bytea) AS failed
FROM (
    SELECT
        query, block, size, due_ns, issued_ns, started_ns, ended_ns, service_ns, status, failed
    FROM query
    WHERE run_key = %(run_key)s AND ts = %(ts)s
    ORDER BY query
    LIMIT %(most)s
) AS taken;

-- span_columns --
-- The first spans of an attempt, each column a byte string of big-endian integers; -1 is null.
SELECT
    string_agg(int8send(span), ''::bytea) AS span,
    string_agg(int8send(coalesce(parent, -1)), ''::bytea) AS parent,
    string_agg(int2send(level), ''::bytea) AS level,
    string_agg(int4send(name), ''::bytea) AS name,
    string_agg(int8send(start_ns), ''::bytea) AS start_ns,
    string_agg(int8send(duration_ns), ''::bytea) AS duration_ns,
    string_agg(int4send(thread), ''::bytea) AS thread,
    string_agg(int4send(query), ''::bytea) AS query,
    string_agg(int2send(block), ''::bytea) AS block,
    string_agg(int4send(
        CASE
            WHEN level = 3 AND jsonb_typeof(attributes -> 'index') = 'number'
                THEN (attributes ->> 'index')::numeric::int4
            ELSE -1
        END
    ), ''::bytea) AS layer,
    string_agg(int2send(kind), ''::bytea) AS kind,
    string_agg(int8send(coalesce(correlation, -1)), ''::bytea) AS correlation,
    string_agg(int4send(
        CASE
            WHEN kind BETWEEN 2 AND 4 AND jsonb_typeof(attributes -> 'device') = 'number'
                THEN (attributes ->> 'device')::numeric::int4
            ELSE -1
        END
    ), ''::bytea) AS device,
    string_agg(int4send(
        CASE WHEN kind BETWEEN 2 AND 4 THEN thread ELSE -1 END
    ), ''::bytea) AS stream
FROM (
    SELECT
        span, parent, level, name, start_ns, duration_ns, thread, query, block, attributes,
        kind, correlation
    FROM span
    WHERE run_key = %(run_key)s AND ts = %(ts)s
    ORDER BY start_ns, span
    LIMIT %(most)s
) AS taken;

-- span_names --
-- Names of an attempt's spans by number.
SELECT name, text FROM span_name WHERE run_key = %(run_key)s;

-- layer_attributes --
-- Attributes of layers of an attempt, of one named span of each.
SELECT
    span,
    attributes ->> 'type' AS type,
    attributes ->> 'shape' AS shape,
    attributes ->> 'provider' AS provider,
    attributes ->> 'original' AS original,
    CASE WHEN jsonb_typeof(attributes -> 'memory_bytes') = 'number'
        THEN (attributes ->> 'memory_bytes')::numeric::int8 END AS memory_bytes,
    CASE WHEN jsonb_typeof(attributes -> 'flops') = 'number'
        THEN (attributes ->> 'flops')::numeric::int8 END AS flops,
    CASE WHEN jsonb_typeof(attributes -> 'bytes_read') = 'number'
        THEN (attributes ->> 'bytes_read')::numeric::int8 END AS bytes_read,
    CASE WHEN jsonb_typeof(attributes -> 'bytes_written') = 'number'
        THEN (attributes ->> 'bytes_written')::numeric::int8 END AS bytes_written,
    attributes ->> 'memory_kind' AS memory_kind
FROM span
WHERE run_key = %(run_key)s AND ts = %(ts)s AND span = ANY(%(spans)s::int8[]);

-- device_attribute_columns --
-- Attributes of device spans of an attempt, each column a byte string of big-endian
-- numbers; -1 and NaN are null. A copy_kind is its place in copy_kinds.
SELECT
    string_agg(int8send(span), ''::bytea) AS span,
    string_agg(int8send(graph_node), ''::bytea) AS graph_node,
    string_agg(int4send(copy_kind), ''::bytea) AS copy_kind,
    string_agg(float8send(flops), ''::bytea) AS flops,
    string_agg(float8send(dram_read_bytes), ''::bytea) AS dram_read_bytes,
    string_agg(float8send(dram_write_bytes), ''::bytea) AS dram_write_bytes,
    string_agg(float8send(occupancy), ''::bytea) AS occupancy
FROM (
    SELECT
        span,
        CASE WHEN jsonb_typeof(attributes -> 'graph_node') = 'number'
            THEN (attributes ->> 'graph_node')::numeric::int8 ELSE -1 END AS graph_node,
        coalesce(
            array_position(%(copy_kinds)s::text[], attributes ->> 'copy_kind') - 1, -1
        ) AS copy_kind,
        CASE WHEN jsonb_typeof(attributes -> 'flops') = 'number'
            THEN (attributes ->> 'flops')::float8 ELSE 'NaN' END AS flops,
        CASE WHEN jsonb_typeof(attributes -> 'dram_read_bytes') = 'number'
            THEN (attributes ->> 'dram_read_bytes')::float8 ELSE 'NaN' END AS dram_read_bytes,
        CASE WHEN jsonb_typeof(attributes -> 'dram_write_bytes') = 'number'
            THEN (attributes ->> 'dram_write_bytes')::float8 ELSE 'NaN' END AS dram_write_bytes,
        CASE WHEN jsonb_typeof(attributes -> 'occupancy') = 'number'
            THEN (attributes ->> 'occupancy')::float8 ELSE 'NaN' END AS occupancy
    FROM span
    WHERE run_key = %(run_key)s AND ts = %(ts)s AND kind BETWEEN 1 AND 5
        AND attributes ?| ARRAY[
            'graph_node', 'copy_kind', 'flops', 'dram_read_bytes', 'dram_write_bytes', 'occupancy'
        ]
    ORDER BY start_ns, span
    LIMIT %(most)s
) AS told;

-- series --
-- Series sampled during an attempt: spans of the kind SAMPLE, in the order of time.
SELECT
    span_name.text AS name, span.start_ns AS at_ns, span.block,
    CASE WHEN jsonb_typeof(span.attributes -> 'device') = 'number'
        THEN (span.attributes ->> 'device')::numeric::int4 END AS device,
    (span.attributes ->> 'value')::numeric::float8 AS value,
    coalesce(span.attributes ->> 'unit', '') AS unit,
    CASE WHEN jsonb_typeof(span.attributes -> 'counted_share') = 'number'
        THEN (span.attributes ->> 'counted_share')::numeric::float8 END AS counted_share
FROM span
INNER JOIN span_name ON span_name.run_key = span.run_key AND span_name.name = span.name
WHERE span.run_key = %(run_key)s AND span.ts = %(ts)s AND span.kind = 6
    AND jsonb_typeof(span.attributes -> 'value') = 'number'
ORDER BY span.start_ns, span.span
LIMIT %(most)s;

-- named_layers --
-- Device spans of an attempt whose source named their layer, as NVTX ranges do.
SELECT span, attributes ->> 'layer' AS layer
FROM span
WHERE run_key = %(run_key)s AND ts = %(ts)s AND kind BETWEEN 2 AND 4
    AND jsonb_typeof(attributes -> 'layer') = 'string' AND attributes ->> 'layer' <> ''
ORDER BY start_ns, span
LIMIT %(most)s;

-- kernel_counters --
-- Counters of kernels that a replay counted, other than those of device_attribute_columns, with
-- the metrics that those are computed from.
SELECT span.span, counter.key AS metric, counter.value::float8 AS value
FROM
    span,
    jsonb_each(
        CASE WHEN jsonb_typeof(span.attributes -> 'counters') = 'object'
            THEN span.attributes -> 'counters' END
    ) AS counter
WHERE span.run_key = %(run_key)s AND span.ts = %(ts)s AND span.kind = 2
    AND span.attributes ? 'counters' AND jsonb_typeof(counter.value) = 'number'
    AND counter.key !~ (
        '^(dram__bytes_(read|write)[.]sum|gpu__time_duration[.]sum|sm__ops_path_tensor_src_.*'
        || '|sm__warps_active[.]avg[.]pct_of_peak_sustained_active'
        || '|smsp__sass_thread_inst_executed_op_[fhd](add|mul|fma)_pred_on[.]sum)$'
    )
ORDER BY span.start_ns, span.span, counter.key
LIMIT %(most)s;

-- outputs --
-- The first outputs of an attempt.
SELECT query, sample, features::text AS features
FROM output
WHERE run_key = %(run_key)s AND ts = %(ts)s
ORDER BY query, sample
LIMIT %(most)s;

-- failures --
-- Errors of failed queries or samples of an attempt, equal errors together, in their order.
SELECT
    status, coalesce(error, '') AS error, count(*) AS queries,
    array_to_string((array_agg(query ORDER BY query))[1:5], ', ') AS first
FROM query
WHERE run_key = %(run_key)s AND ts = %(ts)s AND (status <> 0 OR failed > 0)
GROUP BY status, coalesce(error, '')
ORDER BY min(query)
LIMIT 1000;

-- stored_rows --
-- Number of spans, queries and outputs of an attempt.
SELECT
    coalesce(sum(count) FILTER (WHERE kind = 0), 0)::int8 AS spans,
    coalesce(sum(count) FILTER (WHERE kind = 1), 0)::int8 AS queries,
    coalesce(sum(count) FILTER (WHERE kind = 2), 0)::int8 AS outputs
FROM batch
WHERE run_key = %(run_key)s;

-- stored_device_rows --
-- Number of sampled values, and of spans that name their layer, of an attempt.
SELECT
    count(*) FILTER (WHERE kind = 6) AS samples,
    count(*) FILTER (
        WHERE kind BETWEEN 2 AND 4
            AND jsonb_typeof(attributes -> 'layer') = 'string' AND attributes ->> 'layer' <> ''
    ) AS named_layers
FROM span
WHERE run_key = %(run_key)s AND ts = %(ts)s;

-- lock_evaluation --
-- One analyzer at a time writes an evaluation's tables.
SELECT pg_advisory_xact_lock(hashtextextended('analysis ' || %(evaluation)s, 0));

-- delete_tables --
-- Delete the tables of an evaluation and their rows before they are written again.
WITH gone AS (DELETE FROM analysis WHERE evaluation = %(evaluation)s)
DELETE FROM analysis_row WHERE evaluation = %(evaluation)s;

-- delete_trees --
-- Delete the trees of attempts before they are written again.
DELETE FROM span_tree WHERE run_key = ANY(%(run_keys)s::int8[]);

-- insert_table --
-- Write a table, without its rows.
INSERT INTO analysis (
    evaluation, name, place, title, columns, verdict, caveats, digest, id, chart
)
VALUES (
    %(evaluation)s, %(name)s, %(place)s, %(title)s, %(columns)s, %(verdict)s, %(caveats)s,
    %(digest)s, %(id)s, %(chart)s
);

-- copy_rows --
-- Write rows of tables.
COPY analysis_row (evaluation, name, ordinal, cells) FROM STDIN;

-- copy_tree --
-- Write a tree of spans.
COPY span_tree (run_key, span, parent, layer, method) FROM STDIN;

-- tables --
-- An evaluation's tables by name (none named: all), in the order of a report.
SELECT
    name, title, columns, verdict, caveats, id, chart,
    (
        SELECT count(*) FROM analysis_row
        WHERE analysis_row.evaluation = analysis.evaluation AND analysis_row.name = analysis.name
    ) AS total_rows
FROM analysis
WHERE evaluation = %(evaluation)s
    AND (cardinality(%(names)s::text[]) = 0 OR name = ANY(%(names)s::text[]))
ORDER BY place;

-- late_batches --
-- Attempts of an evaluation with batches that came after they were recorded.
SELECT run, attempt, batches FROM late
WHERE evaluation = %(evaluation)s
ORDER BY run, attempt;

-- rows --
-- Some rows of a table, in order.
SELECT cells FROM analysis_row
WHERE evaluation = %(evaluation)s AND name = %(name)s AND ordinal >= %(offset)s
ORDER BY ordinal
LIMIT %(limit)s;

-- count_predictions --
-- Runs of an evaluation with their number of outputs, of the attempt of each that counts.
SELECT counted.run, (
    SELECT count(*) FROM output
    WHERE output.run_key = counted.run_key AND output.ts = counted.ts
) AS outputs
FROM (
    SELECT DISTINCT ON (run) run, run_key, ts FROM run
    WHERE evaluation = %(evaluation)s AND (%(run)s = '' OR run = %(run)s)
    ORDER BY run, (outcome = 'completed') DESC, attempt DESC
) AS counted
ORDER BY counted.run;

-- predictions --
-- Outputs of an evaluation, of one run or of all.
SELECT counted.run, output.query, output.sample, output.features::text AS features
FROM (
    SELECT DISTINCT ON (run) run, run_key, ts FROM run
    WHERE evaluation = %(evaluation)s AND (%(run)s = '' OR run = %(run)s)
    ORDER BY run, (outcome = 'completed') DESC, attempt DESC
) AS counted
INNER JOIN output ON output.run_key = counted.run_key AND output.ts = counted.ts
ORDER BY counted.run, output.query, output.sample
LIMIT %(limit)s OFFSET %(offset)s;

-- failed_queries --
-- The first queries of an evaluation that failed, also in part, with their errors.
SELECT counted.run, query.query, coalesce(query.error, '') AS error
FROM (
    SELECT DISTINCT ON (run) run, run_key, ts FROM run
    WHERE evaluation = %(evaluation)s AND (%(run)s = '' OR run = %(run)s)
    ORDER BY run, (outcome = 'completed') DESC, attempt DESC
) AS counted
INNER JOIN query ON query.run_key = counted.run_key AND query.ts = counted.ts
WHERE query.status <> 0 OR query.failed > 0
ORDER BY counted.run, query.query
LIMIT 100;

-- delete_headlines --
-- Delete the main figures of an evaluation before they are written again.
DELETE FROM headline WHERE evaluation = %(evaluation)s;

-- insert_headline --
-- Write the main figures of one load.
INSERT INTO headline (
    evaluation, requested_at, run, task, model, model_version, framework, framework_version,
    device, accelerator, "precision", agent, scenario, parameters, batch_size, statistic,
    latency_ns, latency_ns_low, latency_ns_high, samples_per_s, samples_per_s_low,
    samples_per_s_high, offered_per_s, metric, dataset, accuracy, accuracy_low, accuracy_high,
    judged, published_metric, published_dataset, published_accuracy, size_bytes, load_ns,
    first_run_ns
)
SELECT
    %(evaluation)s,
    coalesce((SELECT min(ts) FROM run WHERE evaluation = %(evaluation)s), now()),
    %(run)s, %(task)s, %(model)s, %(model_version)s, %(framework)s, %(framework_version)s,
    %(device)s, %(accelerator)s, %(precision)s, %(agent)s, %(scenario)s, %(parameters)s,
    %(batch_size)s, %(statistic)s, %(latency_ns)s, %(latency_ns_low)s, %(latency_ns_high)s,
    %(samples_per_s)s, %(samples_per_s_low)s, %(samples_per_s_high)s, %(offered_per_s)s,
    %(metric)s, %(dataset)s, %(accuracy)s, %(accuracy_low)s, %(accuracy_high)s, %(judged)s,
    %(published_metric)s, %(published_dataset)s, %(published_accuracy)s, %(size_bytes)s,
    %(load_ns)s, %(first_run_ns)s;

-- headlines --
-- The newest measurements that constraints allow, and how many those are; an empty constraint
-- allows any. Those of evaluations that are not visible are left out; without a list all are.
-- A long list is hashed only where the plan is made for it: the statement must not be prepared.
SELECT
    *,
    to_char(requested_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS requested,
    count(*) OVER () AS total
FROM headline
WHERE (%(task)s::text = '' OR task = %(task)s)
    AND (%(model)s::text = '' OR model = %(model)s)
    AND (%(version)s::text = '' OR model_version = %(version)s)
    AND (%(framework)s::text = '' OR framework = %(framework)s)
    AND (%(agent)s::text = '' OR agent = %(agent)s)
    AND (%(device)s::text = '' OR device = %(device)s)
    AND (%(scenario)s::text = '' OR scenario = %(scenario)s)
    AND (%(visible)s::text[] IS NULL OR evaluation = ANY(%(visible)s::text[]))
ORDER BY requested_at DESC, evaluation, batch_size
LIMIT %(most)s;

-- newest_headlines --
-- Each load that constraints allow where it was measured last, the newest first, and how many loads
-- there are. Grouping by hash takes a sixth of the time of DISTINCT ON, which sorts all rows.
-- Versions with a local part (1.0.0+4f8a) are models of their own: they may have come with requests.
WITH newest AS (
    SELECT
        CASE WHEN model_version LIKE '%%+%%' THEN model_version ELSE '' END AS own_version,
        model, framework, device, agent, scenario, batch_size, parameters, "precision",
        max(requested_at) AS requested_at
    FROM headline
    WHERE (%(task)s::text = '' OR task = %(task)s)
        AND (%(model)s::text = '' OR model = %(model)s)
        AND (%(version)s::text = '' OR model_version = %(version)s)
        AND (%(framework)s::text = '' OR framework = %(framework)s)
        AND (%(agent)s::text = '' OR agent = %(agent)s)
        AND (%(device)s::text = '' OR device = %(device)s)
        AND (%(scenario)s::text = '' OR scenario = %(scenario)s)
        AND (%(visible)s::text[] IS NULL OR evaluation = ANY(%(visible)s::text[]))
    GROUP BY
        own_version, model, framework, device, agent, scenario, batch_size, parameters, "precision"
),
total AS (SELECT count(*) AS total FROM newest),
chosen AS (SELECT * FROM newest ORDER BY requested_at DESC LIMIT %(most)s)
SELECT DISTINCT ON (
    requested_at, model, framework, device, agent, scenario, batch_size, parameters, "precision",
    own_version
)
    headline.*,
    to_char(requested_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS requested,
    total.total
FROM headline
INNER JOIN chosen USING (
    model, framework, device, agent, scenario, batch_size, parameters, "precision",
    requested_at
)
CROSS JOIN total
WHERE (%(visible)s::text[] IS NULL OR headline.evaluation = ANY(%(visible)s::text[]))
    AND chosen.own_version
    = CASE WHEN headline.model_version LIKE '%%+%%' THEN headline.model_version ELSE '' END
ORDER BY
    requested_at DESC,
    model, framework, device, agent, scenario, batch_size, parameters, "precision", own_version;

-- choices --
-- The values of each constraint over visible evaluations, of their distinct combinations.
WITH combination AS MATERIALIZED (
    SELECT DISTINCT task, model, framework, agent, device, scenario FROM headline
    WHERE %(visible)s::text[] IS NULL OR evaluation = ANY(%(visible)s::text[])
)
SELECT
    array_agg(DISTINCT task ORDER BY task) AS task,
    array_agg(DISTINCT model ORDER BY model) AS model,
    array_agg(DISTINCT framework ORDER BY framework) AS framework,
    array_agg(DISTINCT agent ORDER BY agent) AS agent,
    array_agg(DISTINCT device ORDER BY device) AS device,
    array_agg(DISTINCT scenario ORDER BY scenario) AS scenario
FROM combination;

-- server_start --
-- When the server was started.
SELECT pg_postmaster_start_time() AS started;

-- without_tables --
-- Those of some evaluations that have no tables.
SELECT evaluation FROM unnest(%(evaluations)s::text[]) AS named (evaluation)
WHERE NOT EXISTS (SELECT FROM analysis WHERE analysis.evaluation = named.evaluation);

-- beginnings --
-- When the first run of each of some evaluations began, in epoch seconds of its agent's clock.
SELECT evaluation, min(epoch_start_ns)::float8 / 1e9 AS began_s FROM run
WHERE evaluation = ANY(%(evaluations)s::text[]) AND epoch_start_ns > 0
GROUP BY evaluation;

-- repeats --
-- The newest visible evaluations, other than those named, of a load that one of the named has.
SELECT other.evaluation FROM headline AS own
INNER JOIN headline AS other USING (
    model, framework, device, agent, scenario, batch_size, parameters
)
WHERE own.evaluation = ANY(%(evaluations)s::text[])
    AND other.evaluation <> ALL(%(evaluations)s::text[])
    AND (%(visible)s::text[] IS NULL OR other.evaluation = ANY(%(visible)s::text[]))
GROUP BY other.evaluation
ORDER BY max(other.requested_at) DESC, other.evaluation
LIMIT %(most)s;

-- with_runs --
-- Those of some evaluations of which any run is here.
SELECT evaluation FROM unnest(%(evaluations)s::text[]) AS named (evaluation)
WHERE EXISTS (SELECT FROM run WHERE run.evaluation = named.evaluation)
ORDER BY evaluation;
