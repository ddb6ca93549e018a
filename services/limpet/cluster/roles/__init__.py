"""Each role's process: what it opens, which part of the work it takes, how it gives that back."""
