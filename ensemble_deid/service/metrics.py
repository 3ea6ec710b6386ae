"""Counts and times for Prometheus; no label of a metric comes from a request.

The library decides when it is imported whether values are shared between processes; `share_between_workers` lets it
decide again.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client import values as prometheus_values
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
OTHER = "other"


def share_between_workers() -> None:
    """Keep new values in the folder that the library's variable names, for all workers to read."""
    prometheus_values.ValueClass = prometheus_values.get_value_class()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of one service; with several workers, any of them answers for all."""

    def __init__(self, paths: frozenset[str]) -> None:
        own = CollectorRegistry()
        self._paths = paths
        self._registry = own
        self._requests = Counter("ensemble_deid_requests", "requests answered", ["path", "status"], registry=own)
        self._seconds = Histogram(
            "ensemble_deid_request_seconds", "seconds from request to answer", ["path"], registry=own, buckets=_SECONDS
        )
        self._notes = Counter("ensemble_deid_notes", "notes processed or withheld", ["outcome"], registry=own)
        self._characters = Counter("ensemble_deid_characters", "characters of processed notes", registry=own)
        self._spans = Counter("ensemble_deid_spans", "spans found, by the model's labels", ["label"], registry=own)
        self._listed = Counter(
            "ensemble_deid_listed",
            "what the gate and the site's lists did, by the names in docs/known.md",
            ["count"],
            registry=own,
        )
        self._entered = Gauge(
            "ensemble_deid_requests_in_progress",
            "requests waiting or being processed",
            registry=own,
            multiprocess_mode="livesum",
        )
        self._waiting = Gauge(
            "ensemble_deid_notes_waiting",
            "notes that wait for the model",
            registry=own,
            multiprocess_mode="livesum",
        )
        self._together = Histogram(
            "ensemble_deid_notes_together", "notes in a batch of the model", registry=own, buckets=(1, 2, 4, 8, 16)
        )

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request; a path that the service does not have may hold anything, so it is not named."""
        known = path if path in self._paths else OTHER
        self._requests.labels(known, str(status)).inc()
        self._seconds.labels(known).observe(seconds)

    def processed(self, characters: int, labels: list[str]) -> None:
        self._notes.labels("processed").inc()
        self._characters.inc(characters)
        for label in labels:
            self._spans.labels(label).inc()

    def withheld(self) -> None:
        self._notes.labels("withheld").inc()

    def listed(self, counts: Mapping[str, int]) -> None:
        """Add what the gate and the site's lists did to a note."""
        for name, number in counts.items():
            self._listed.labels(name).inc(number)

    def in_progress(self, count: int) -> None:
        self._entered.set(count)

    def gathered(self, waiting: int, together: int | None) -> None:
        """Set the number of waiting notes, and record the size of a batch."""
        self._waiting.set(waiting)
        if together is not None:
            self._together.observe(together)

    def page(self) -> bytes:
        folder = os.environ.get(_FOLDER)
        if folder is None:
            return generate_latest(self._registry)
        for path in Path(folder).glob("gauge_live*_*.db"):
            number = int(path.stem.rpartition("_")[2])
            try:
                os.kill(number, 0)
            except ProcessLookupError:
                mark_process_dead(number)  # type: ignore[no-untyped-call]
            except PermissionError:
                # It lives, as another user's.
                continue
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
