"""Pooling for `optimize`: max and mean over windows of one, two or three axes, and adaptive means and maxima."""
