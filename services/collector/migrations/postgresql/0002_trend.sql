-- Trends for people: latency by day, model and how it was measured. The same file in each profile.

CREATE VIEW trend AS
SELECT
    query_trend.day,
    run.model,
    run.model_version,
    run.framework,
    run.framework_version,
    run.agent,
    run.scenario,
    run.batch_size,
    run.level,
    count(*) AS runs,
    sum(query_trend.queries)::int8 AS queries,
    sum(query_trend.failed)::int8 AS failed,
    sum(query_trend.samples)::int8 AS samples,
    min(query_trend.least_ns) AS least_ns,
    sum(query_trend.sum_ns) / sum(query_trend.queries)::float8 AS mean_ns,
    max(query_trend.most_ns) AS most_ns
FROM query_trend
JOIN run ON run.run_key = query_trend.run_key
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9;
COMMENT ON VIEW trend IS 'Latency of every query by day, model, agent and scenario, traced or not.';
COMMENT ON COLUMN trend.day IS 'The day the evaluations were requested, UTC.';
COMMENT ON COLUMN trend.level IS 'The deepest trace level: compare only runs of the same.';
COMMENT ON COLUMN trend.runs IS 'Attempts counted.';
COMMENT ON COLUMN trend.least_ns IS 'Least latency, ns: from due (closed loop: issued) to answer.';
COMMENT ON COLUMN trend.mean_ns IS 'Mean latency, ns.';
COMMENT ON COLUMN trend.most_ns IS 'Most latency, ns.';
COMMENT ON VIEW query_trend IS 'Queries of a run by day: a continuous aggregate on TimescaleDB.';
COMMENT ON VIEW span_trend IS 'Spans of a run by day, level and name: likewise.';
