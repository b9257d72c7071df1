"""What other systems need to take part in a benchmark; runs in their own environment, with nothing of ours."""
