"""The helpers beside the tests are imported by their names, also by the benchmarks."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
