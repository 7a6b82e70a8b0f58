-- The papers' number of a table, and its chart.

ALTER TABLE analysis ADD COLUMN id text NOT NULL DEFAULT '';
ALTER TABLE analysis ADD COLUMN chart jsonb;
COMMENT ON COLUMN analysis.id IS 'A1 to A15 of the papers'' analyses; empty for others.';
COMMENT ON COLUMN analysis.chart IS 'A Vega-Lite specification without data; fields are columns.';
