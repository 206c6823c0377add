"""Where an epoch's work is done: in this process's workers, or on the node that holds the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Site = Literal["local", "storage"]

SIZE_RULE_BYTES = 64 << 20


@dataclass(frozen=True)
class Features:
    """What a policy may know before it decides."""

    epoch_bytes: int | None  # of the data that an epoch reads, if known
    data_is_local: bool  # every path that the data set names exists on this machine


@dataclass(frozen=True)
class Decision:
    """A site, and the reason in words that end in no full stop."""

    site: Site
    reason: str


class Policy(Protocol):
    """Chooses a site. Later policies (cost model, learned) stand behind the same interface."""

    def decide(self, features: Features) -> Decision: ...


@dataclass(frozen=True)
class Forced:
    """What the user said."""

    site: Site

    def decide(self, features: Features) -> Decision:
        return Decision(self.site, f"policy={self.site!r} was asked for")


@dataclass(frozen=True)
class SizeRule:
    """Data that is not here, or is more than 64 MiB an epoch, is worked on where it lies (the rule
    of arXiv 2512.02646)."""

    bytes_max: int = SIZE_RULE_BYTES

    def decide(self, features: Features) -> Decision:
        if not features.data_is_local:
            return Decision("storage", "the data is not on this machine")
        if features.epoch_bytes is None:
            return Decision("local", "the data is on this machine and of unknown size")
        size = f"{features.epoch_bytes / (1 << 20):.0f} MiB an epoch"
        limit = f"{self.bytes_max >> 20} MiB"
        if features.epoch_bytes > self.bytes_max:
            return Decision("storage", f"{size} is more than {limit}")
        return Decision("local", f"{size} is at most {limit}, and the data is on this machine")


def make_policy(name: str | Policy) -> Policy:
    """The policy of a name: "auto", "local" or "storage"."""
    if not isinstance(name, str):
        return name
    if name == "auto":
        return SizeRule()
    if name in ("local", "storage"):
        return Forced("local" if name == "local" else "storage")
    raise ValueError(f"unknown policy {name!r}: use 'auto', 'local' or 'storage'")
