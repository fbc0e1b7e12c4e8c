"""Functions that share a model, in any order with anything in between: the bits of plain PyTorch.

Many more seeds: python tests/torch/any_order.py 0 1000
"""

import pytest
from any_order import trial


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_functions_and_changes_leaves_the_bits_of_plain_pytorch(seed: int) -> None:
    problem, done = trial(seed)
    assert problem == "", "\n".join(done.log)
    assert done.compiled_calls > 0
