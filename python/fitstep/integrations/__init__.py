"""Trains with the trainers of other libraries inside a memory budget: one line each.

    fitstep.integrations.fit_trainer(trainer, budget="60%")    # transformers, TRL
    fitstep.integrations.fit_lightning(trainer, budget="60%")  # Lightning

Each function takes a trainer that is ready to train, and returns it. `trainer.train()` or
`trainer.fit(...)` stays as it is. Importing this module imports none of these libraries.
"""

from .hf_trainer import fit_trainer
from .lightning import fit_lightning

__all__ = ["fit_lightning", "fit_trainer"]
