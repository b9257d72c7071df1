"""How far right answers may be apart: the float64 oracle, rounding, orders of summation, infinities."""
