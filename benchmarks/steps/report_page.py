"""The report as a page, for a step of 5,000 ops: its size, and the time until a browser shows it.

python -m benchmarks.steps.report_page [--browser /usr/bin/chromium] [--keep page.html]

The time is from the start of the navigation until the charts are drawn, in a headless browser of
its own for each of five openings. It needs `pip install playwright` and a Chromium; without them
only the sizes are printed.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from fitstep_kit.models.gpt import GPT

import fitstep
from benchmarks.output import MIB, Row, arguments, save, show

OPENINGS = 5
MOST_MIB, MOST_S = 3.0, 2.0  # What is asked.


def step_of(layers: int) -> fitstep.Step:
    """A tiny GPT with many layers: about 200 ops for each, most of them of the optimizer."""
    torch.manual_seed(0)
    model = GPT(vocab=64, context=32, width=32, layers=layers, heads=2, dropout=0.0)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    tokens = torch.randint(0, 64, (4, 32))

    def train_step(tokens: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(tokens).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = fitstep.compile(train_step, example=(tokens,), budget="60%", audits="off", effort=1)
    for _ in range(2):
        step(tokens)
    return step


def opening_s(path: Path, browser: str) -> list[float] | None:
    """Seconds of each opening; None without playwright."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    seconds = []
    drawn = "#charts-0[data-drawn]", "#budgets-0[data-drawn]"
    with sync_playwright() as playwright:
        for _ in range(OPENINGS):
            chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = chromium.new_page(viewport={"width": 1300, "height": 1000})
            page.goto(path.as_uri())
            elements: list[Any] = [page.wait_for_selector(one, timeout=60_000) for one in drawn]
            seconds.append(max(float(one.get_attribute("data-drawn")) for one in elements) / 1e3)
            chromium.close()
    return seconds


def measure(layers: int, path: Path, browser: str) -> Row:
    step = step_of(layers)
    report = step.report()
    began = time.perf_counter()
    report.to_html(path)
    made_s = time.perf_counter() - began
    seconds = opening_s(path, browser)
    return {
        "case": f"GPT of {layers} layers",
        "ops": max(one.ops + one.recomputed_ops for one in report.variants),
        "page_mib": round(path.stat().st_size / MIB, 2),
        "made_s": round(made_s, 2),
        "opened_s": seconds and round(statistics.median(seconds), 2),
        "slowest_s": seconds and round(max(seconds), 2),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--browser", default="/usr/bin/chromium", help="path of a Chromium")
    parser.add_argument("--keep", type=Path, help="leave the largest page in this file")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "report.html"
        for layers in (2,) if options.small else (6, 40):
            rows.append(measure(layers, path.resolve(), options.browser))
    show(f"The page: at most {MOST_MIB} MiB and {MOST_S} s are asked for 5,000 ops", rows)
    save("report_page", {"rows": rows}, options.small)


if __name__ == "__main__":
    main()
