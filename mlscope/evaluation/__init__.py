"""One evaluation as a fold of its facts: the record, and what every live view shows. Pure.

`evolve` folds facts in the order of the log into an `EvaluationRecord`; `status_of` makes the
`EvaluationStatus` of it that the scheduler answers, and `record_of` turns such an answer back, so
that a watcher can fold on from there. The scheduler adds fields of its own to the record.
"""
