"""A process that trains the subjects named on its input; started by breadth.py.

    PYTHONPATH=python python -m benchmarks.breadth.worker plain|fitstep

Answers each name with a line of JSON. What libraries print goes to stderr.
"""

import json
import os
import sys
import traceback
import warnings
from typing import Any

import torch

from benchmarks.breadth.training import train_fitstep, train_plain


def answer(how: str, name: str) -> dict[str, Any]:
    """What training the subject gave; an exception is an answer, too."""
    try:
        return (train_plain if how == "plain" else train_fitstep)(name)
    except Exception as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines() or [""]
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        return {"raised": f"{type(error).__name__}: {lines[0][:300]} ({where})"}


def main() -> int:
    """Until its input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(answer(sys.argv[1], line.strip())), file=answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
