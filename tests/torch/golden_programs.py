"""Captures the golden programs of tests/golden/ anew from real models.

    PYTHONPATH=python python tests/torch/golden_programs.py

Needed only when the text form of programs or what capture records has changed: times are those of
the machine it runs on, so every number in golden_test.cpp changes with it.
"""

from pathlib import Path

from fitstep_kit.subjects.cases import CASES, build
from fitstep_kit.subjects.equal_bits import close_all, compile_all

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("mlp", "gpt", "unet", "lstm")


def main() -> None:
    """One file per model: the steady step, places in code relative to the repository."""
    for name in NAMES:
        trainee = build(CASES[name], tiny=True)
        steps = compile_all(trainee, "200%")
        path = ROOT / "tests" / "golden" / f"{name}.program"
        path.write_text(str(steps[0].program).replace(f"{ROOT}/", ""))
        close_all(steps)
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
