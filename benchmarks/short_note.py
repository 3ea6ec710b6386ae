"""What one short note costs: milliseconds of the processor for a note of 50 words that comes alone, as in a service.

Give two checkouts to compare them side by side, in turns, so that other work on the machine meets both. Run:

    python benchmarks/short_note.py MODEL [CHECKOUT CHECKOUT]
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from service_load import note

_NOTES, _TURNS = 40, 5


def measure(model: str) -> float:
    """Return the milliseconds a note, the best of five runs over 40 notes."""
    from ensemble_deid import Deidentifier

    rng = random.Random(1)
    texts = [note(rng, 50)[0] for _ in range(_NOTES)]
    loaded = Deidentifier.load(model)
    times = []
    for _ in range(1 + _TURNS):  # the first run imports what is imported when it is needed
        begun = time.process_time()
        for text in texts:
            loaded.deidentify(text)
        times.append(time.process_time() - begun)
    return 1000 * min(times[1:]) / _NOTES


def main() -> None:
    """Print the milliseconds, of each checkout where there are some."""
    model, *checkouts = sys.argv[1:]
    if not checkouts:
        print(f"{measure(model):.2f}")
        return
    for _ in range(3):
        for checkout in checkouts:
            environment = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve())}
            ran = subprocess.run(
                [sys.executable, __file__, model], env=environment, check=True, capture_output=True, text=True
            )
            print(f"{checkout}: {ran.stdout.strip()} ms a note", flush=True)


if __name__ == "__main__":
    main()
