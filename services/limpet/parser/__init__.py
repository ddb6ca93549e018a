"""The parser: reads exactly the archived record, publishes its links."""
