"""Recovery after a death, and the comparisons that run all the time."""
