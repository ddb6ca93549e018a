"""What a reader of WARC bytes may raise."""


class WarcError(ValueError):
    """These bytes are not what they should be: a torn, damaged, oversized or malformed member or record."""


class RecordTooLargeError(WarcError):
    """A record beyond the bound that its reader set; nothing is said against it otherwise."""
