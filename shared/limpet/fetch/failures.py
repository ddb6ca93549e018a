"""Faults of a connection as `NetFailure`s: no exception of a socket or of TLS leaves the engine."""

import errno
import ssl

from limpet.fetch.port import NetFailure


def connect_failure(error: OSError, address: str) -> NetFailure:
    """Why no TCP connection to `address` came about, or why what followed was not in time."""
    if isinstance(error, ConnectionRefusedError):
        return NetFailure(kind="refused", detail=f"{address} refused the connection")
    if isinstance(error, TimeoutError):
        return NetFailure(kind="timeout", detail=f"{address} did not answer in time")
    return NetFailure(kind="connect", detail=f"{address}: {errno.errorcode.get(error.errno or 0, str(error))}")


def tls_failure(error: Exception, address: str) -> NetFailure:
    """Why the TLS handshake with `address` failed. A hang-up in it counts: some servers refuse a name that way."""
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        is_certificate = isinstance(error, ssl.SSLCertVerificationError)
        return NetFailure(kind="tls", detail=tls_reason(error), certificate=is_certificate)
    if isinstance(error, ValueError):  # after SSLError: a certificate error is both
        return NetFailure(kind="tls", detail=f"host name: {error}")
    return NetFailure(kind="tls", detail=f"{address} closed the connection in the TLS handshake")


def tls_reason(error: ssl.SSLError) -> str:
    """The verification message, or the alert's or library's name (`TLSV1_UNRECOGNIZED_NAME`)."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"
    return error.reason or str(error)
