"""Honest: writes into its input, as the reference does."""


def run(x, y):
    x += y
    return x


TASK = "add_in_place"
