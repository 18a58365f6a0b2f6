"""Hidden benchmarks: labels stay on the server, users send score files, and rounded numbers are published."""
