"""Install a wheel in a fresh environment and train a step there, without compiler and CMake.

    python tools/try_wheel.py dist/fitstep-*.whl [--keep FOLDER]

Prints the seconds from `pip install` to the first trained step. The environment sees no program
but Python's own: its PATH is its own folder of programs. Nothing of this checkout is on its path.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

TRAINING = """
import time
import torch
import fitstep

model = torch.nn.Sequential(*(torch.nn.Linear(256, 256), torch.nn.GELU()) * 8)
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(4096, 256), torch.randn(4096, 256)

def train_step(x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

step = fitstep.compile(train_step, example=(x, y), budget="60%")
loss = step(x, y)
print(time.time())
print(f"loss of the first step {loss.item():.4f}")
print(step.check())
print(f"fitstep {fitstep.__version__} with torch {torch.__version__}")
"""
TOOLS = ("c++", "g++", "gcc", "clang++", "cc", "cmake", "ninja", "make", "nvcc")


def environment_of(folder: Path) -> dict[str, str]:
    """Variables of the user's shell without all that leads to a compiler or to this checkout."""
    left_out = ("PYTHONPATH", "CC", "CXX", "LD_LIBRARY_PATH", "CMAKE_PREFIX_PATH")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    cache = {"HOME": str(folder), "FITSTEP_CACHE": str(folder / "cache")}
    return kept | cache | {"PATH": str(folder / "venv" / "bin")}


def try_wheel(wheel: Path, folder: Path) -> int:
    """The exit status of the training."""
    env = environment_of(folder)
    found = [name for name in TOOLS if shutil.which(name, path=env["PATH"])]
    assert not found, f"the environment has {', '.join(found)}"
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    start = time.time()
    command = [python, "-m", "pip", "install", "-q", str(wheel)]
    subprocess.run(command, cwd=folder, env=env, check=True)
    installed = time.time()
    done = subprocess.run(
        [python, "-c", TRAINING],
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        check=False,
    )
    ended, _, said = done.stdout.partition("\n")
    print(said, end="")
    if done.returncode == 0:
        trained = float(ended)
        print(
            f"{wheel.name}: pip install {installed - start:.1f} s, from there to the first trained "
            f"step {trained - installed:.1f} s, together {trained - start:.1f} s"
        )
    return done.returncode


def main() -> int:
    """0 if the training has plain PyTorch's bits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--keep", type=Path, help="a new folder for the environment, which stays")
    args = parser.parse_args()
    wheel = args.wheel.resolve()
    if args.keep is not None:
        args.keep.mkdir(parents=True)
        return try_wheel(wheel, args.keep.resolve())
    with tempfile.TemporaryDirectory() as folder:
        return try_wheel(wheel, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
