"""What went wrong, in one line that says what is missing."""


class Trouble(Exception):
    """The servers cannot do what was asked; the text says why and what would help."""
