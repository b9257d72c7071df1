"""The scripts that measure on a real GPU; each needs one (exit 4 without), within a given time.

Results: `benchmarks/results/h200/`, each row or file with date, command and device.
"""
