"""Audits are off."""

import os

os.environ["FITSTEP_AUDITS"] = "off"  # Tests count runs and bytes.
