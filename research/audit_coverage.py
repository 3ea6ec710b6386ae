"""How often the bounds of an audit cover the rate, on made-up sites: sparse and dense leaks, alike within patients."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ensemble_deid.audit.bounds import Units, clustered_upper, sequential_bounds
from ensemble_deid.cli.options import add_command, add_shared
from ensemble_deid.cli.terminal import say
from ensemble_deid.note.digits import percent
from ensemble_deid.seeds import generator


@dataclass(frozen=True, slots=True)
class Site:
    """`rate` of notes leak, with a correlation of `alike` within a patient, who has `notes` of them on average."""

    rate: float
    alike: float
    notes: float

    def draw(self, patients: int, random: np.random.Generator) -> Units:
        """Return a sample of patients, every other one from a stratum with three times the weight."""
        sizes = random.geometric(1 / self.notes, patients)
        spread = (1 - self.alike) / self.alike
        own = random.beta(self.rate * spread, (1 - self.rate) * spread, patients)
        leaks = random.binomial(sizes, own).astype(np.float64)
        stratum = (np.arange(patients) % 2).astype(np.float64)
        return Units(leaks, sizes.astype(np.float64), 1 + 2 * stratum, stratum)


SITES = tuple(Site(rate, alike, n) for rate in (0.005, 0.02, 0.05, 0.2) for alike in (0.1, 0.4) for n in (1.0, 5.0))


def cluster_robust(units: Units) -> float:
    """Return the bound of the rate by note."""
    return clustered_upper(units)


def sequential(units: Units) -> float:
    """Return the lowest bound of the rate by patient over all looks; of patients with one note alone."""
    return sequential_bounds(units, largest=3.0)[-1][1]


def coverage(bound: Callable[[Units], float], site: Site, *, patients: int, samples: int, seed: int) -> float:
    """Return the share of samples whose bound is not below the true rate."""
    random = generator(seed, f"audit coverage {site} {patients}")
    return sum(bound(site.draw(patients, random)) >= site.rate for _ in range(samples)) / samples


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = add_command(commands, "audit-coverage", run_audit_coverage, example="--samples 2000")
    parser.add_argument("--samples", metavar="N", type=int, default=1000, help="for each site; default: 1000")
    add_shared(parser, "seed", seed=1)


def _rows(samples: int, seed: int) -> Iterator[str]:
    for site in SITES:
        for patients in (40, 100, 200):
            found = {"cluster-robust": cluster_robust, **({"sequential": sequential} if site.notes == 1 else {})}
            for name, bound in found.items():
                share = coverage(bound, site, patients=patients, samples=samples, seed=seed)
                facts = f"{percent(site.rate)} | {site.alike:g} | {site.notes:g} | {patients}"
                yield f"| {name} | {facts} | {percent(share, sign='')} |"


def run_audit_coverage(options: argparse.Namespace) -> int:
    """How often the bounds of an audit cover the rate."""
    say("| bound | rate | alike | notes a patient | patients | covered, % |")
    say("|---|---|---|---|---|---|")
    for row in _rows(options.samples, options.seed):
        say(row)
    return 0
