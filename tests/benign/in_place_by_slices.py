"""Honest: writes into its input row by row, as the reference does in one go."""


def run(x, y):
    for i in range(x.shape[0]):
        x[i] += y[i]
    return x


TASK = "add_in_place"
