-- All ways in which a span's parent is known.

COMMENT ON COLUMN span_tree.method IS
    'captured, containment, launch (of device work: the call that started it), graph (its node was made there), or none: how the parent is known.';
