-- What is special about a run's process, and what collectors of traces lost.

ALTER TABLE run ADD COLUMN variant text NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN dropped_records int8 NOT NULL DEFAULT 0;
COMMENT ON COLUMN run.variant IS
'Empty, serialised, counters or cold: numbers of different variants are never mixed.';
COMMENT ON COLUMN run.dropped_records IS
'Records that collectors lost: above 0 the figures of their levels are invalid.';
