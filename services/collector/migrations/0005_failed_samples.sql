-- A bad sample fails alone: a query may be answered in part.

ALTER TABLE query ADD COLUMN failed int4;
COMMENT ON COLUMN query.failed IS
'Samples in it without an answer, of a query answered in part; null: its status says it all.';

ALTER TABLE run ADD COLUMN failed_samples int8 NOT NULL DEFAULT 0;
COMMENT ON COLUMN run.failed_samples IS
'Samples without an answer in queries answered in part, as announced.';
