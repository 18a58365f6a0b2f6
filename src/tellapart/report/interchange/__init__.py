"""Results in the formats of others: model cards, lm-eval's JSON, and what CLIP_benchmark and mteb write."""
