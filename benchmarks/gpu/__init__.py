"""What was measured on a real GPU, and the scripts that did it; each needs one (exit 4 without), within a given time.

Results: `benchmarks/results/h100/`, `benchmarks/results/h200/`, each row or file with date, command and device.
"""
