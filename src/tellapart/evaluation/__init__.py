"""Models measured on benchmarks: plan, score, measure, record; and comparisons of records."""
