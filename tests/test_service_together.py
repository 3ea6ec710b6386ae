"""Notes that wait at the same time are read together, and none is touched by its company."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from http_service import running

from ensemble_deid import Deidentifier, Document, RunOptions
from ensemble_deid.service.processor import Gatherer, Processor
from ensemble_deid.service.refusal import Refused

TOKENS = {"a token with all scopes": "predict replace known", "a token that predicts": "predict"}
NOTES = [f"Patient: Anna {name}\nDate: 03/0{k}/2019\nSeen by Dr. Hunt" for k, name in enumerate(("Bell", "Poe"), 1)]


class Held:
    """Work that begins when it is let go, and fails for negative numbers."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.groups: list[list[int]] = []

    def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.groups.append(list(numbers))
        assert self.go.wait(30)
        return [ValueError("negative") if number < 0 else 2 * number for number in numbers]


def test_what_waits_together_is_worked_on_together() -> None:
    async def run() -> None:
        processor, work, seen = Processor(places=99, time_limit=20), Held(), list[tuple[int, int | None]]()
        gatherer = Gatherer(processor, work, most=3, room=100, watch=lambda *counts: seen.append(counts))
        numbers = (1, 2, -3, 4, 5, 60, 70)
        asked = [asyncio.create_task(gatherer.one(number, size=abs(number))) for number in numbers]
        await asyncio.sleep(0.05)
        # One that leaves while it waits is passed over, and so is nobody else.
        asked[3].cancel()
        await asyncio.sleep(0.01)
        work.go.set()
        done = await asyncio.gather(*asked, return_exceptions=True)
        assert work.groups == [[1, 2, -3], [5, 60], [70]] or work.groups == [[1], [2, -3, 5], [60], [70]]
        assert [type(found) if isinstance(found, BaseException) else found for found in done] == [
            *(2, 4, ValueError, asyncio.CancelledError, 10, 120, 140)
        ]
        assert max(waiting for waiting, _ in seen) >= 6
        assert seen[-1] == (0, 1)
        processor.close()

    asyncio.run(run())


def test_a_note_whose_time_is_over_is_not_read() -> None:
    async def run() -> None:
        processor, work = Processor(places=99, time_limit=0.2), Held()
        gatherer = Gatherer(processor, work, most=1, room=100)
        asked = [asyncio.create_task(gatherer.one(number, size=1)) for number in (1, 2)]
        for task in asked:
            with pytest.raises(Refused, match="not done within"):
                await task
        work.go.set()
        assert await gatherer.one(3, size=1) == 6
        assert work.groups == [[1], [3]]
        processor.close()

    asyncio.run(run())


def test_concurrent_requests_get_the_answers_that_they_get_alone(tiny_model: Path, tmp_path: Path) -> None:
    asked: list[tuple[dict[str, object], str]] = [
        ({"text": NOTES[0]}, "a token that predicts"),
        ({"text": NOTES[1], "style": "surrogate", "patient_id": "7"}, "a token with all scopes"),
        ({"text": NOTES[1], "style": "surrogate"}, "a token that predicts"),
        ({"text": "Rubbish\0"}, "a token with all scopes"),
        ({"text": NOTES[0], "threshold": 0.9, "style": "mask"}, "a token with all scopes"),
        ({"text": NOTES[1] * 40}, "a token with all scopes"),
    ]
    (tmp_path / "tokens").write_text("".join(f"{t.replace(' ', '-')} {scopes}\n" for t, scopes in TOKENS.items()))
    with running(tiny_model, tmp_path, "--tokens", str(tmp_path / "tokens")) as service:

        def ask(number: int) -> tuple[int, dict[str, Any]]:
            content, token = asked[number % len(asked)]
            answer = service.post("/v1/deidentify", content, authorization=f"Bearer {token.replace(' ', '-')}")
            return answer.status, answer.json

        alone = [ask(number) for number in range(len(asked))]
        assert [status for status, _ in alone] == [200, 200, 403, 422, 200, 200]
        with ThreadPoolExecutor(24) as threads:
            together = list(threads.map(ask, range(20 * len(asked))))
        assert together == alone * 20
        page = service.get("/metrics", authorization="Bearer a-token-with-all-scopes").body.decode()
        read, begun = (
            float(page.partition(f"\nensemble_deid_notes_together_{name} ")[2].split()[0]) for name in ("sum", "count")
        )
        assert "\nensemble_deid_notes_waiting 0.0" in page
        # Of six requests one has no right to ask; each of the others was read, and most not alone.
        assert read >= 21 * 5
        assert begun < read / 1.5


def test_notes_read_together_have_the_results_that_they_have_alone(tiny_model: Path) -> None:
    model = Deidentifier.load(tiny_model)
    options = [RunOptions.choose(model.labels, style=style, threshold=t) for style, t in (("mask", None), ("tag", 0.9))]
    asked = [(Document(f"n{k}", text), options[k % 2]) for k, text in enumerate([*NOTES, "Nothing here.", "\0"] * 2)]
    alone = [result for note, own in asked for result in model.process([note], own)]
    together = model.process_each(asked)
    assert [(found.text, found.error, found.counts) for found in together] == [
        (found.text, found.error, found.counts) for found in alone
    ]
    scores = [[span.score for result in results for span in result.spans] for results in (together, alone)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert [result.error is None for result in alone] == [True, True, True, False] * 2
