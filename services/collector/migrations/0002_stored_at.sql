-- When each batch was stored: a run that still gains batches is not yet incomplete.

ALTER TABLE batch ADD COLUMN stored_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN batch.stored_at IS 'When it was stored.';
