"""Who lives and who owns which shard: a hint, leases on boot-time clocks, epochs. Takes the table as a port."""

from limpet.membership.hint import Membership, StaticShare
from limpet.membership.lease import Lease
from limpet.membership.observer import Observer
from limpet.membership.ownership import Loss, LossHandler, Ownership, Previous, TakeHandler
from limpet.membership.presence import Presence
from limpet.membership.table import UNOWNED, Beat, LeaseTable, Owner
from limpet.membership.timing import Timing

__all__ = [
    "UNOWNED",
    "Beat",
    "Lease",
    "LeaseTable",
    "Loss",
    "LossHandler",
    "Membership",
    "Observer",
    "Owner",
    "Ownership",
    "Presence",
    "Previous",
    "StaticShare",
    "TakeHandler",
    "Timing",
]
