"""Graph → kernels."""
