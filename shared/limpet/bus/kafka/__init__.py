"""The bus on Kafka. Only this room imports the driver (confluent-kafka)."""

from limpet.bus.kafka.bus import CAPABILITIES, KafkaBus
from limpet.bus.kafka.consumer import KafkaConsumer, KafkaGapError
from limpet.bus.kafka.delivery import Outgoing
from limpet.bus.kafka.intake import Intake
from limpet.bus.kafka.producer import KafkaProducer
from limpet.bus.kafka.readers import KafkaMember, KafkaReader
from limpet.bus.kafka.redelivery import Bounds, Redelivery, TooManyFailuresError, attempt_of, due_us
from limpet.bus.kafka.settings import KafkaSettings
from limpet.bus.kafka.topics import Topics, TopicSettingsError, TopicSpec, specs_of

__all__ = [
    "CAPABILITIES",
    "Bounds",
    "Intake",
    "KafkaBus",
    "KafkaConsumer",
    "KafkaGapError",
    "KafkaMember",
    "KafkaProducer",
    "KafkaReader",
    "KafkaSettings",
    "Outgoing",
    "Redelivery",
    "TooManyFailuresError",
    "TopicSettingsError",
    "TopicSpec",
    "Topics",
    "attempt_of",
    "due_us",
    "specs_of",
]
