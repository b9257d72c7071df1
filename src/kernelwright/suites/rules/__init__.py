"""Programs that run in a worker: the benchmarks' own rules. They import nothing of ours, and nobody imports them."""
