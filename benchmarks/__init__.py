"""Scripts that print the figures the documentation quotes; run each as `python -m benchmarks.NAME`."""
