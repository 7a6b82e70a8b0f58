"""Analyzer: turns an evaluation's rows into tables, each with its verdict and its caveats.

Owns: the tables, and which span lies in which. Hears: EvaluationMeasured, the query `tables`.
Says: AnalysisCompleted, AnalysisFailed. Knows: rows, not who wrote them; no agent, no page.
"""
