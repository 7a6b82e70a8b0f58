-- Which rows the role for dashboards may see: those of evaluations that the whole cluster may see.

CREATE TABLE run_visibility (
    run_key int8 PRIMARY KEY,
    evaluation text NOT NULL,
    is_visible bool NOT NULL
);
COMMENT ON TABLE run_visibility IS
'Attempts whose evaluation''s request was read: whether everybody may see them. All others are hidden.';
COMMENT ON COLUMN run_visibility.run_key IS 'The attempt.';
COMMENT ON COLUMN run_visibility.evaluation IS 'The evaluation''s id.';
COMMENT ON COLUMN run_visibility.is_visible IS 'False for an evaluation that is private.';
CREATE INDEX run_visibility_evaluation ON run_visibility (evaluation) WHERE is_visible;
