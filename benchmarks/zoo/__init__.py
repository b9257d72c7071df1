"""Models of eight kinds at a small real shape with random weights: one function each, by category."""
