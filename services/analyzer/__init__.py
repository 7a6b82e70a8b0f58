"""Turns an evaluation's rows into tables.

Owns: `analysis` tables. Hears: EvaluationMeasured, `tables`. Says: AnalysisCompleted, AnalysisFailed.
Does not know: agents, the scheduler, pages.
"""
# WORK IN PROGRESS (remove this comment at the end): frames.py, tables/*, tests/services/analyzer/test_tables*,
# tests/golden/tables are being written by the tables helper (helper-9); store.py, queries.sql, migrations,
# correlation.py, service.py belong to the collector/analyzer helper (helper-7). frames.py defines what store.py must read.
