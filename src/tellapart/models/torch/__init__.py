"""Models that compute with torch: devices and dtypes, checkpoints, adapters, likelihoods, counts of operations."""
