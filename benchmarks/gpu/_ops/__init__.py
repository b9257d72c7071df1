"""What `benchmarks.gpu.ops` runs: cases of correctness, and calls that are timed."""
