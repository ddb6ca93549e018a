"""The schemas that cross a process or a release."""
