"""What every part agrees on: URLs and their identity, states, outcomes, events, errors."""
