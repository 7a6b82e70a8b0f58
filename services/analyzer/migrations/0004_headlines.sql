-- The main figures of every load of every evaluation: what is explored over many evaluations, and
-- what a dashboard reads without touching the rows below.

CREATE TABLE headline (
    evaluation text NOT NULL,
    run text NOT NULL,
    requested_at timestamptz NOT NULL,
    task text NOT NULL,
    model text NOT NULL,
    model_version text NOT NULL,
    framework text NOT NULL,
    framework_version text NOT NULL,
    device text NOT NULL,
    accelerator text NOT NULL,
    "precision" text NOT NULL,
    agent text NOT NULL,
    scenario text NOT NULL,
    parameters text NOT NULL,
    batch_size int4 NOT NULL,
    statistic text NOT NULL,
    latency_ns float8,
    latency_ns_low float8,
    latency_ns_high float8,
    samples_per_s float8,
    samples_per_s_low float8,
    samples_per_s_high float8,
    offered_per_s float8,
    metric text NOT NULL,
    dataset text NOT NULL,
    accuracy float8,
    accuracy_low float8,
    accuracy_high float8,
    judged int8,
    published_metric text NOT NULL,
    published_dataset text NOT NULL,
    published_accuracy float8,
    size_bytes int8,
    load_ns int8,
    first_run_ns int8,
    PRIMARY KEY (evaluation, run)
);
COMMENT ON TABLE headline IS
'Main figures of each load of each evaluation: those of its completed run that was traced least.';
COMMENT ON COLUMN headline.evaluation IS 'The evaluation''s id.';
COMMENT ON COLUMN headline.run IS 'The run whose figures these are.';
COMMENT ON COLUMN headline.requested_at IS 'When the evaluation was requested.';
COMMENT ON COLUMN headline.task IS 'The model''s task.';
COMMENT ON COLUMN headline.model IS 'The model''s name.';
COMMENT ON COLUMN headline.model_version IS 'The model''s version.';
COMMENT ON COLUMN headline.framework IS 'The framework that executed it.';
COMMENT ON COLUMN headline.framework_version IS 'The framework''s version.';
COMMENT ON COLUMN headline.device IS 'cpu, cuda …';
COMMENT ON COLUMN headline.accelerator IS 'Names of the machine''s GPUs; empty on a CPU.';
COMMENT ON COLUMN headline."precision" IS 'Precision in effect.';
COMMENT ON COLUMN headline.agent IS 'The agent that executed it.';
COMMENT ON COLUMN headline.scenario IS 'How queries arrived.';
COMMENT ON COLUMN headline.parameters IS 'The scenario''s parameters as JSON.';
COMMENT ON COLUMN headline.batch_size IS 'Samples in a query.';
COMMENT ON COLUMN headline.statistic IS 'Of the latency: trimmed_mean, median or p99.';
COMMENT ON COLUMN headline.latency_ns IS 'Latency of a query, ns.';
COMMENT ON COLUMN headline.latency_ns_low IS 'Lower end of its 95 % interval, ns.';
COMMENT ON COLUMN headline.latency_ns_high IS 'Upper end of its 95 % interval, ns.';
COMMENT ON COLUMN headline.samples_per_s IS 'Samples answered a second.';
COMMENT ON COLUMN headline.samples_per_s_low IS 'Lower end of its 95 % interval.';
COMMENT ON COLUMN headline.samples_per_s_high IS 'Upper end of its 95 % interval.';
COMMENT ON COLUMN headline.offered_per_s IS 'Queries due a second, of an open loop.';
COMMENT ON COLUMN headline.metric IS 'Metric of the accuracy; empty without one.';
COMMENT ON COLUMN headline.dataset IS 'Dataset and version.';
COMMENT ON COLUMN headline.accuracy IS 'Measured accuracy; shares are from 0 to 1.';
COMMENT ON COLUMN headline.accuracy_low IS 'Lower end of its 95 % interval.';
COMMENT ON COLUMN headline.accuracy_high IS 'Upper end of its 95 % interval.';
COMMENT ON COLUMN headline.judged IS 'Samples judged for it.';
COMMENT ON COLUMN headline.published_metric IS 'Metric that the manifest quotes; empty without.';
COMMENT ON COLUMN headline.published_dataset IS 'Dataset of the quoted accuracy.';
COMMENT ON COLUMN headline.published_accuracy IS 'Accuracy that the manifest quotes.';
COMMENT ON COLUMN headline.size_bytes IS 'The model''s published size, bytes.';
COMMENT ON COLUMN headline.load_ns IS 'Time to open the model, ns.';
COMMENT ON COLUMN headline.first_run_ns IS 'Time of the first, cold prediction, ns.';
CREATE INDEX headline_load ON headline (
    model, framework, device, agent, scenario, batch_size, requested_at DESC
);
