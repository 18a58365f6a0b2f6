"""Results in the formats of others: model cards, lm-eval's JSON, and the files of CLIP_benchmark and mteb."""
