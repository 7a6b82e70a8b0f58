-- How much was stored when completeness was said: what comes later is late, and counted as such.

ALTER TABLE run ADD COLUMN settled_batches int4;
COMMENT ON COLUMN run.settled_batches IS
'Batches stored when completeness was decided. What comes later is stored too: rows beyond those.';

CREATE VIEW late AS
SELECT run.run_key, run.evaluation, run.run, run.attempt, count(*) - run.settled_batches AS batches
FROM run
JOIN batch ON batch.run_key = run.run_key
WHERE run.settled_batches IS NOT NULL
GROUP BY run.run_key
HAVING count(*) > run.settled_batches;
COMMENT ON VIEW late IS 'Attempts that gained batches after their completeness was decided.';
COMMENT ON COLUMN late.batches IS 'How many: rows that run.incomplete and the tables may lack.';
