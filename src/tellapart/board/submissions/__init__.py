"""Hidden benchmarks: labels that stay on the server, score files that come to it, and what is told of them."""
