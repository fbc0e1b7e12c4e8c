"""Steps that fail while copies are on their way: nothing is changed, and the next is right."""

import pytest
from fitstep_kit.measures.bits import differences
from fitstep_kit.subjects.jobs import Job, mlp

import fitstep


def assert_failed_steps_change_nothing(ours: Job, step: fitstep.Step, failures: int) -> None:
    """Trains an mlp(), with steps between whose targets are out of range: the loss's kernel stops
    while copies are on their way."""
    ours.train(step, 2)
    for _ in range(failures):
        with pytest.raises(fitstep.StepFailed, match="out of bounds") as raised:
            step(ours.x, ours.y + 99)
        assert raised.value.unusable == ()
    found = ours.train(step, 2)
    step.close()
    plain = mlp()
    plain.train(plain.step, 2)
    assert differences(found, plain.train(plain.step, 2)) == []
