"""Models measured on benchmarks: plan, score, measure, record; and what compares records."""
