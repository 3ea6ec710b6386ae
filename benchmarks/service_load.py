"""Load tests of the service: abuse, response times, batching, and a soak.

    python benchmarks/service_load.py MODEL abuse --requests 10000 --clients 16
    python benchmarks/service_load.py MODEL times --seconds 5
    python benchmarks/service_load.py MODEL together --clients 16 --turns 3 --seconds 20
    python benchmarks/service_load.py MODEL soak --requests 100000 --clients 16

Starts `ensemble-deid serve` on a free local port. Fails when a response quotes a note that was not processed, when a
processed note still has its date, or when the server's output has a word of a note. A client on the same machine takes
the times over open connections; processor time is the server's own (Linux) and hardly depends on other programs.

`abuse` cuts connections and sends rubbish and oversize bodies. `together` alternates between two servers, one of which
reads one note at a time, or is that of an earlier checkout (`--against`); it sends passages of 600 characters
(`--length`) from the demo corpus's dev notes. `soak` sends such passages and prints how the server's memory grows.
`--minutes` ends a part early; the number of requests is printed.
MODEL must find slashed dates, as every model with the English patterns does.
"""

import argparse
import http.client
import json
import math
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid import read_corpus
from ensemble_deid.cli.terminal import as_script

MARKER = "Zyxwvutsr"
MAX_BODY = 100_000
MODEL = Path("models/ensemble_deid_en/ensemble_deid_en/model")
_ADDRESS = re.compile(r"at http://([^ ;]+):(\d+);")
_WORDS = "patient was seen in the clinic for pain of the chest and no fever was found after two days at home".split()
_JSON = {"content-type": "application/json"}


def note(rng: random.Random, words: int) -> tuple[str, str]:
    """Return a note of so many words with a date in it, and the date."""
    date = f"{rng.randint(1, 12):02}/{rng.randint(10, 28)}/{rng.randint(1950, 2019)}"
    body = [rng.choice(_WORDS) if k % 12 else f"{rng.choice(_WORDS)}." for k in range(words - 3)]
    return f"{MARKER} {' '.join(body)}\nDate: {date}\n", date


class Client:
    """One client with a connection that it keeps until it, or the server, closes it."""

    def __init__(self, host: str, port: int, seed: int, tally: Counter[str]) -> None:
        self.host, self.port, self.tally = host, port, tally
        self.rng = random.Random(seed)
        self.connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; a server that closes an idle connection is asked once more."""
        for last in (False, True):
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
            try:
                self.connection.request("POST", path, body, _JSON)
                response = self.connection.getresponse()
                content = response.read()
                if response.will_close:
                    self.close()
                return response.status, content
            except (http.client.HTTPException, OSError):
                self.close()
                if last:
                    raise
        raise AssertionError

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def act(self) -> None:
        """Do one thing, drawn at random, and check what comes back."""
        kinds = (self.deidentify, self.analyze, self.anonymize, self.batch, self.cut, self.rubbish, self.oversize)
        kind: Callable[[], str] = self.rng.choices(kinds, (40, 15, 5, 5, 15, 15, 5))[0]
        self.tally[f"{kind.__name__}: {kind()}"] += 1

    def deidentify(self) -> str:
        text, date = note(self.rng, self.rng.choice((20, 50, 200)))
        status, content = self.post("/v1/deidentify", json.dumps({"text": text}).encode())
        self.check(date, status, content)
        assert status != 200 or b"[DATE]" in content
        return str(status)

    def analyze(self) -> str:
        text, date = note(self.rng, 50)
        status, content = self.post("/analyze", json.dumps({"text": text, "language": "en"}).encode())
        assert MARKER.encode() not in content
        self.check(date, status, content)
        return str(status)

    def anonymize(self) -> str:
        text, date = note(self.rng, 50)
        start = text.index(date)
        result = {"start": start, "end": start + len(date), "score": 1.0, "entity_type": "DATE_TIME"}
        status, content = self.post("/anonymize", json.dumps({"text": text, "analyzer_results": [result]}).encode())
        self.check(date, status, content)
        return str(status)

    def batch(self) -> str:
        made = [note(self.rng, 30) for _ in range(5)]
        lines = [json.dumps({"text": text}) for text, _ in made]
        lines.insert(2, f'{{"text": "{MARKER}X')
        status, content = self.post("/v1/deidentify/batch", "\n".join(lines).encode())
        for _, date in made:
            self.check(date, status, content)
        assert f"{MARKER}X".encode() not in content
        assert status != 200 or len(content.splitlines()) == len(lines)
        return str(status)

    def cut(self) -> str:
        """Leave in the middle of a head, of a body, or before the answer."""
        body = json.dumps({"text": note(self.rng, 50)[0]}).encode()
        path = self.rng.choice(("/v1/deidentify", "/analyze", "/v1/deidentify/batch"))
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        sent = head.encode() + body
        with socket.create_connection((self.host, self.port), timeout=120) as connection:
            connection.sendall(sent[: self.rng.choice((20, len(head) + 30, len(sent)))])
        return "connection cut"

    def rubbish(self) -> str:
        body = json.dumps({"text": f"{MARKER} of {MARKER}", "analyzer_results": []}).encode()
        how = self.rng.randrange(6)
        if how == 0:
            body = body[: self.rng.randrange(len(body))]
        elif how == 1:
            body = self.rng.randbytes(200)
        elif how == 2:
            body = b"[" * self.rng.randrange(1, 5000)
        elif how == 3:
            body = json.dumps({MARKER: MARKER, "text": {MARKER: 1}}).encode()
        elif how == 4:
            body = json.dumps({"text": f"{MARKER}\0", "analyzer_results": []}).encode()
        else:
            body = body.replace(b"of", b"\xff\xfe")
        status, content = self.post(self.rng.choice(("/v1/deidentify", "/analyze", "/anonymize")), body)
        assert MARKER.encode() not in content, "rubbish came back"
        assert status in (400, 422, 429, 503), status
        return str(status)

    def oversize(self) -> str:
        body = json.dumps({"text": MARKER * (MAX_BODY // 6)}).encode()
        try:
            status, content = self.post("/v1/deidentify", body)
        except OSError:
            return "connection closed by the server"
        assert MARKER.encode() not in content, "an oversize note came back"
        assert status in (413, 429, 503), status
        return str(status)

    def check(self, date: str, status: int, content: bytes) -> None:
        """An answer has no date of the note, and one that refuses has nothing of it."""
        assert date.encode() not in content, "a date came back"
        assert status in (200, 422, 429, 503), status
        assert status == 200 or MARKER.encode() not in content, "an unprocessed note came back"


def in_threads(number: int, work: Callable[[int], None]) -> float:
    """Run the work in so many threads and return the seconds; the first failure ends the program."""
    failures: list[BaseException] = []

    def run(k: int) -> None:
        try:
            work(k)
        except BaseException as error:  # noqa: BLE001 (reported below)
            failures.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(number)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.perf_counter() - begun


def processor_seconds(process: int) -> float:
    """Return the seconds of the processor that a process and its children have used."""
    # The name of the program, which may hold anything, ends with the last bracket.
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(int(child)) for child in children)


def memory(process: int) -> dict[str, float]:
    """Return the megabytes of a process and its children: `Pss` counts shared memory once, `Private` is not shared."""
    found: Counter[str] = Counter()
    for line in Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]:
        name, size, _ = line.split()
        found[name.partition("_")[0].rstrip(":")] += int(size) / 1024 if name in _KINDS else 0
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
    return dict(sum((Counter(memory(int(child))) for child in children), found))


_KINDS = ("Pss:", "Private_Clean:", "Private_Dirty:")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    host: str
    port: int
    process: int


@contextmanager
def serving(options: argparse.Namespace, *more: str, checkout: Path | None = None) -> Iterator[Server]:
    """Start a server, of another checkout with its own model if one is given, wait until it answers, and end it.

    Its output must have no word of a note.
    """
    model, environment = options.model, {k: v for k, v in os.environ.items() if k != "ENSEMBLE_DEID_TOKEN"}
    environment["PYTHONUNBUFFERED"] = "1"
    if checkout is not None:
        checkout = checkout.resolve()
        model, environment["PYTHONPATH"] = str(checkout / MODEL), str(checkout)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "ensemble_deid", "serve", model, "--port", "0", *more]
        command += ["--max-body", str(MAX_BODY), "--jobs", str(options.workers), "--time-limit", "600"]
        command += [] if options.submodels is None else ["--submodels", options.submodels]
        with log.open("wb") as stream:
            server = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment, cwd=checkout)
        try:
            while not (found := _ADDRESS.search(log.read_text(encoding="utf-8"))):
                assert server.poll() is None, log.read_text(encoding="utf-8")
                time.sleep(0.1)
            connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=300)
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
            connection.close()
            yield Server(found[1], int(found[2]), server.pid)
        finally:
            server.terminate()
            status = server.wait(timeout=120)
        assert status == 0, status
        assert MARKER not in log.read_text(encoding="utf-8"), "the server's output has a word of a note"


@dataclass(frozen=True, slots=True)
class Load:
    """Answered notes, other responses by status, elapsed seconds, and the server's processor seconds."""

    notes: int
    others: Counter[int]
    seconds: float
    processor: float


def send(server: Server, notes: list[str], *, clients: int, requests: float = math.inf, seconds: float) -> Load:
    """Let clients send passages, each with its own date, until there are enough or time is up."""
    tallies = [Counter[int]() for _ in range(clients)]
    end = time.perf_counter() + seconds

    def work(k: int) -> None:
        client = Client(server.host, server.port, k, Counter())
        while tallies[k].total() < requests / clients and time.perf_counter() < end:
            _, date = note(client.rng, 4)
            text = f"{client.rng.choice(notes)}\n{MARKER} {date}"
            status, content = client.post("/v1/deidentify", json.dumps({"text": text}).encode())
            client.check(date, status, content)
            tallies[k][status] += 1
        client.close()

    used = processor_seconds(server.process)
    took = in_threads(clients, work)
    tally = sum(tallies, Counter[int]())
    return Load(tally.pop(200, 0), tally, took, processor_seconds(server.process) - used)


def passages(length: int) -> list[str]:
    """Return the second so many characters of each dev note that has twice as many."""
    texts = [document.text for document in read_corpus("demo:dev").documents]
    return [text[length : 2 * length] for text in texts if len(text) >= 2 * length]


def together(options: argparse.Namespace) -> float:
    """Print how many times the notes of the first of two servers the second reads; return it for the processor."""
    notes = passages(options.length)
    totals = {"earlier" if options.against else "one by one": [0.0] * 3, "together": [0.0] * 3}
    one_by_one = serving(options, checkout=options.against) if options.against else serving(options, "--together", "1")
    with one_by_one as first, serving(options) as second:
        for server in (first, second):
            send(server, notes, clients=1, requests=3, seconds=math.inf)
        print("| turn | notes read | notes | notes/s | notes/s of the server's processor | refused |")
        print("|---|---|---|---|---|---|")
        for turn in range(1, options.turns + 1):
            for (name, total), server in zip(totals.items(), (first, second), strict=True):
                load = send(server, notes, clients=options.clients, seconds=options.seconds)
                rates = f"{load.notes / load.seconds:.2f} | {load.notes / load.processor:.2f}"
                print(f"| {turn} | {name} | {load.notes:,} | {rates} | {load.others.total()} |", flush=True)
                for k, value in enumerate((load.notes, load.seconds, load.processor)):
                    total[k] += value
    (one, one_clock, one_processor), (other, clock, processor) = totals.values()
    if not (one and other):
        raise SystemExit("no note was answered")
    by_clock, by_processor = other / clock / (one / one_clock), other / processor / (one / one_processor)
    print(
        f"\n{options.clients} clients, {options.length} characters: together {by_processor:.2f} times as many notes/s"
    )
    print(f"of the processor, {by_clock:.2f} by the clock")
    return by_processor


def soak(options: argparse.Namespace) -> None:
    """Print how the server's memory grows with the requests."""
    notes = passages(options.length)
    parts = 5
    with serving(options) as server:
        done, others, processor = 0, Counter[int](), 0.0
        print("| requests | not answered with 200 | MB in all | MB of its own | s | s of the server's processor |")
        print("|---|---|---|---|---|---|")
        for _ in range(parts):
            load = send(
                server,
                notes,
                clients=options.clients,
                requests=options.requests / parts,
                seconds=60 * options.minutes / parts,
            )
            done, others, processor = done + load.notes, others + load.others, processor + load.processor
            used = memory(server.process)
            row = f"{used['Pss']:.0f} | {used['Private']:.0f} | {load.seconds:.0f} | {load.processor:.0f}"
            print(f"| {done + others.total():,} | {others.total()} | {row} |", flush=True)
    cost = f"{1000 * processor / done:.0f}" if done else "undefined"
    print(f"\n{done:,} notes by {options.clients} clients, {cost} ms of the processor each")


def abuse(options: argparse.Namespace) -> None:
    """Print what was answered, by kind of request."""
    with serving(options) as server:
        _abuse(server.host, server.port, server.process, options)


def times(options: argparse.Namespace) -> None:
    """Print response times by length of note and number of clients."""
    with serving(options) as server:
        print("| words | clients | p50 ms | p95 ms | p99 ms | notes/s | processor ms a note | notes | refused |")
        print("|---|---|---|---|---|---|---|---|---|")
        for words in (50, 500, 5000):
            for clients in (1, 8, 32):
                print(latencies(server.host, server.port, server.process, words, clients, options.seconds), flush=True)


def _abuse(host: str, port: int, process: int, options: argparse.Namespace) -> None:
    clients = options.clients
    tallies = [Counter[str]() for _ in range(clients)]
    end = time.perf_counter() + 60 * options.minutes

    def work(k: int) -> None:
        client = Client(host, port, k, tallies[k])
        for _ in range(options.requests // clients):
            if time.perf_counter() > end:
                break
            client.act()
        client.close()

    used = processor_seconds(process)
    seconds = in_threads(clients, work)
    used = processor_seconds(process) - used
    tally = sum(tallies, Counter[str]())
    print(f"{tally.total():,} requests by {clients} clients in {seconds:.0f} s, {used:.0f} s of the server's processor")
    print("no unprocessed note came back\n")
    print("| request | outcome | number |\n|---|---|---|")
    for name, count in sorted(tally.items()):
        kind, _, outcome = name.partition(": ")
        print(f"| {kind} | {outcome} | {count:,} |")


def latencies(host: str, port: int, process: int, words: int, clients: int, seconds: float) -> str:
    """Return a row of the table; each client asks for so many seconds, and at least three times."""
    times: list[float] = []
    refused: Counter[int] = Counter()

    def work(k: int) -> None:
        client = Client(host, port, 1000 + k, Counter())
        end = time.perf_counter() + seconds
        done = 0
        while done < 3 or time.perf_counter() < end:
            text, _ = note(client.rng, words)
            body = json.dumps({"text": text}).encode()
            begun = time.perf_counter()
            status, _ = client.post("/v1/deidentify", body)
            if status == 200:
                times.append(time.perf_counter() - begun)
            else:
                refused[status] += 1
            done += 1
        client.close()

    used = processor_seconds(process)
    took = in_threads(clients, work)
    used = processor_seconds(process) - used
    times.sort()
    p50, p95, p99 = (1000 * times[min(len(times) - 1, int(len(times) * q))] for q in (0.5, 0.95, 0.99))
    figures = f"{p50:.0f} | {p95:.0f} | {p99:.0f} | {len(times) / took:.1f} | {1000 * used / len(times):.1f}"
    return f"| {words:,} | {clients} | {figures} | {len(times):,} | {refused.total()} |"


@as_script
def main() -> None:
    """Start servers, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("part", choices=("abuse", "times", "together", "soak"))
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="of abuse or soak, at most")
    parser.add_argument("--length", type=int, default=600, help="characters of a passage")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--submodels", help="of the model, to be loaded")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row of times, each turn of together")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="its server is the first one of together")
    options = parser.parse_args()
    {"abuse": abuse, "times": times, "together": together, "soak": soak}[options.part](options)


if __name__ == "__main__":
    sys.exit(main())
