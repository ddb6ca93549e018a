"""What a reader of WARC bytes may raise."""


class WarcError(ValueError):
    """These bytes are not what they should be: a torn, damaged, oversized or malformed member or record."""
