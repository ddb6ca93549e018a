"""Events: what is written fits its schema, and what was once written is read for ever."""

from collections.abc import Callable

import jsonschema
import msgspec
import pytest

from limpet.model.events import (
    DOCUMENT_FETCHED,
    EVENT_VERSION,
    LINKS_DISCOVERED,
    DocumentFetched,
    LinksDiscovered,
    UnknownEventVersionError,
    decode_fetched,
    decode_links,
    encode,
)
from limpet.schemas.events import samples, schema

Decode = Callable[[bytes], DocumentFetched | LinksDiscovered]
DECODERS: dict[str, Decode] = {DOCUMENT_FETCHED: decode_fetched, LINKS_DISCOVERED: decode_links}


@pytest.mark.parametrize("topic", DECODERS)
def test_frozen_samples_are_read_and_written_alike(topic: str) -> None:
    """A sample once published parses for ever; today's encoder writes the very same bytes."""
    assert samples(topic, 1)
    for sample in samples(topic, 1):
        assert encode(DECODERS[topic](sample)) == sample


@pytest.mark.parametrize("topic", DECODERS)
def test_samples_fit_their_schema(topic: str) -> None:
    """The JSON Schema is what other programs read by."""
    validator = jsonschema.Draft202012Validator(schema(topic, EVENT_VERSION))
    for sample in samples(topic, EVENT_VERSION):
        validator.validate(msgspec.json.decode(sample))
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**msgspec.json.decode(sample), "surprise": 1})


@pytest.mark.parametrize("topic", DECODERS)
def test_an_unknown_version_pauses(topic: str) -> None:
    """An event of a newer version is an error of its own: the consumer stops, it never drops or guesses."""
    newer = msgspec.json.encode({**msgspec.json.decode(samples(topic, 1)[0]), "v": 2})
    with pytest.raises(UnknownEventVersionError):
        DECODERS[topic](newer)


def test_a_malformed_event_is_refused() -> None:
    """A missing field is no event."""
    with pytest.raises(msgspec.ValidationError):
        decode_fetched(b'{"v":1,"crawl":"x"}')
