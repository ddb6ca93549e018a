"""The `limpet` command: reads arguments, calls, prints. Nothing here decides anything."""
