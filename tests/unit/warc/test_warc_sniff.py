"""The identified payload type: the tables of WHATWG MIME sniffing, and no guess beyond them."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.warc.sniff import PREFIX_BYTES, sniff


@pytest.mark.parametrize(
    ("payload", "coding", "wanted"),
    [
        (b"<!DOCTYPE html><p>", None, "text/html"),
        (b"\xef\xbb\xbf \r\n<HTML lang=en>", None, "text/html"),
        (b"<html>", None, "text/html"),
        (b"<htmlx>", None, ""),
        (b"<p>hello</p>", None, "text/html"),
        (b"<?xml version='1.0'?><rss>", None, "text/xml"),
        (b"<?xml version='1.0'?>\n<html xmlns='http://www.w3.org/1999/xhtml'>", None, "application/xhtml+xml"),
        (b"%PDF-1.7\n", None, "application/pdf"),
        (b"\x89PNG\r\n\x1a\nxxxx", None, "image/png"),
        (b"\xff\xd8\xff\xe0xxxx", None, "image/jpeg"),
        (b"GIF89a", None, "image/gif"),
        (b"plain", None, ""),
        (b"\x00\x01\x02binary", None, ""),
        (b"RIFF\x24\x00\x00\x00WEBPVP8 ", None, "image/webp"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", None, "audio/wave"),
        (b"RIFF\x24\x00\x00\x00other", None, ""),
        (b"FORM\x00\x00\x00\x00AIFF", None, "audio/aiff"),
        (b"BM1234", None, "image/bmp"),
        (b"\x00\x00\x01\x00\x01", None, "image/x-icon"),
        (b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp41isom", None, "video/mp4"),
        (b"\x00\x00\x00\x18ftypisom\x00\x00\x00\x00mp41isom", None, "video/mp4"),
        (b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic", None, ""),
        (b"\x1a\x45\xdf\xa3\x01", None, "video/webm"),
        (b"ID3\x04", None, "audio/mpeg"),
        (b"OggS\x00\x02", None, "application/ogg"),
        (b"wOF2\x00", None, "font/woff2"),
        (b"\x00\x01\x00\x00\x00\x0c", None, "font/ttf"),
        (b"PK\x03\x04", None, "application/zip"),
        (b"%!PS-Adobe-3.0", None, "application/postscript"),
        (b"<!-- a --><!-- b -->\n<!DOCTYPE\nhtml>", None, "text/html"),
        (b"<!-- Generator --><svg xmlns='http://www.w3.org/2000/svg'>", None, ""),
        (b"<!-- for ever " + b"x" * 5_000 + b"--><html>", None, ""),
        (b"<SCRIPT>alert()", None, "text/html"),
        (b"<svg>", None, ""),
        (b"", None, ""),
        (gzip.compress(b"<html><body>" * 1_000, mtime=0), b"gzip", "text/html"),
        (gzip.compress(b"<html><body>" * 1_000, mtime=0), b" GZIP ", "text/html"),
        (gzip.compress(b"<html><body>", mtime=0), None, "application/x-gzip"),
        (b"not gzip", b"gzip", ""),
        (b"<html>", b"br", ""),
        (gzip.compress(gzip.compress(b"<html>", mtime=0), mtime=0), b"gzip, gzip", ""),
    ],
)
def test_payload_types_are_told_only_when_proven(payload: bytes, coding: bytes | None, wanted: str) -> None:
    """Ours is an independent judgement from the bytes; where they leave doubt, none is given."""
    assert sniff(payload, coding) == wanted


@given(st.binary(max_size=200), st.sampled_from([b"", b"<!--", b"RIFF", b"\x00\x00\x00\x10ftyp"]))
def test_any_bytes_will_do(tail: bytes, start: bytes) -> None:
    """Whatever a site sends: an answer or none, and the same whatever follows the part that is looked at."""
    payload = (start + tail).ljust(PREFIX_BYTES, b"\x00")
    assert sniff(payload) == sniff(payload + b"<html>" * 10_000)
    assert isinstance(sniff(payload, b"gzip"), str)
