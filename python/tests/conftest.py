"""The helpers beside the tests are imported by their names."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["FITSTEP_AUDITS"] = "off"  # Tests count runs and bytes.
