"""Capture: a step function becomes recordings, one for each state that it can start from.

    discover ─> swapped ─┬─> record from the present state        first step: makes optimizer state
                         ├─> record from the state it left        steady step
                         └─> record again while a formula changes  RAdam after its fifth step

All recordings run the user's own function on fakes of its own tensors; no kernel runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from . import _core
from .capture_errors import translated
from .capture_mode import RecordingMode, Sources, content
from .capture_patches import patched
from .capture_results import check_constant, in_parts
from .errors import CaptureError, user_location
from .recording import PERSISTENT, Awaited, Bound, Recording, Result
from .shadow import recorded_host_side, storages_of
from .state import Rebinding, Swap
from .state.variant import argument_fact, guarded, refused_argument

if TYPE_CHECKING:
    from .session import Session


def _roles(swap: Swap) -> dict[int, str]:
    """The role of each swapped tensor: of all its places, the one that says most about it."""
    roles: dict[int, str] = {}
    places = swap.reach.tensors
    for wanted in PERSISTENT:
        for place in places:
            if place.role == wanted:
                roles.setdefault(id(place.tensor), wanted)
    for real, _fake, first in swap.pairs:
        if first is not None:
            roles.setdefault(id(real), first.role)
    return roles


_Entry = tuple[int, object, str]


def _entry(container: object, key: object, kind: str) -> _Entry:
    """Which entry of which object is bound anew, and how; by identity, as paths may be equal."""
    return id(container), id(key) if isinstance(key, torch.Tensor) else key, kind


def _look(real: torch.Tensor) -> tuple[Any, ...]:
    return (real.data_ptr(), real.shape, real.stride(), real.dtype)


class Capturer:
    """Records a function inside one swap, again and again from the state that it left.

    REQUIRES: used inside `swapped(reach, fake_mode)`.
    """

    def __init__(
        self,
        swap: Swap,
        fake_mode: FakeTensorMode,
        profile: Any,
        session: Session,
    ) -> None:
        self.swap = swap
        self.fake_mode = fake_mode
        self.profile = profile
        self._session = session
        self._bound: dict[int, Bound] = {}  # By storage of the fake.
        self._names: dict[str, Bound] = {}
        # Rebindings that earlier recordings made, with the fakes: their ids must stay theirs.
        self._done: dict[_Entry, list[torch.Tensor]] = {}
        self._fakes_of_leaves: dict[int, torch.Tensor] = {}
        self._met: list[tuple[torch.Tensor, str | None]] = []  # Externals, with the place.
        self._twice: dict[int, tuple[torch.Tensor, int]] = {}  # Fake, storage of the real one.
        roles = _roles(swap)
        leaves = [real for real, _, _ in swap.pairs if real.is_leaf]
        owners = {id(leaf.grad): leaf for leaf in leaves if leaf.grad is not None}
        for real, fake, _place in swap.pairs:
            role = roles.get(id(real), "closure")
            if id(real) in owners and role not in PERSISTENT:
                role = "grad"
            owner = owners.get(id(real)) if role == "grad" else None
            name = self.grad_name(owner) if owner is not None else self.name_of(real)
            self._add(Bound(name, role, fake, real))

    def _add(self, bound: Bound) -> None:
        key = bound.fake.untyped_storage()._cdata
        known = self._bound.get(key)
        if known is None or (bound.is_home and not known.is_home):
            self._bound[key] = bound
        self._names[bound.name] = bound

    def name_of(self, real: torch.Tensor) -> str:
        return self._session.name_of(real, self.swap.reach.name(real))

    def give_grads(self) -> None:
        """Lets the next recording start with every gradient that has a home and is not there."""
        for real, fake, _place in self.swap.pairs:
            name = self.grad_name(real) if real.is_leaf and real.requires_grad else ""
            if name not in self._session.homes or fake.grad is not None:
                continue
            if name not in self._names:
                with self.fake_mode:
                    grad = torch.empty_like(fake.detach())
                self._add(Bound(name, "grad", grad, None))
            self.swap.give_grad(real, self._names[name].fake)
            self._done.pop(_entry(real, "grad", "gone"), None)

    def record(self, function: Callable[..., Any], leaves: list[Any], spec: Any) -> Recording:
        """One recording from the present state of the fakes.

        Raises CaptureError, with the user's file and line, for what cannot be captured.
        """
        recording = self._begin()
        recorder = recording.recorder
        fake_leaves = self._bind_inputs(recording, leaves, spec)
        sources = Sources()
        met: dict[int, tuple[torch.Tensor, str | None]] = {}

        def external(real: torch.Tensor) -> torch.Tensor:
            fake = self.swap.external(real)
            met.setdefault(id(fake), (real, user_location()))
            if recorder.storage_of(fake) < 0:
                proposal = f"closed-over tensor {tuple(real.shape)}"
                name = self._session.name_of(real, proposal)
                number = recorder.bind(fake, name, "constant", False, True)
                recording.bound.append(Bound(name, "external", fake, real, number))
            return fake

        region = -1

        def tape_number(tensor: torch.Tensor) -> int:
            return int(recorder.storage_of(tensor))

        def on_enter(optimizer: torch.optim.Optimizer, number: int) -> None:
            nonlocal region
            region = number
            while len(recording.owned) <= number:
                recording.owned.append({})
            self._own(recording.owned[number], storages_of(optimizer, tape_number))

        def on_exit(optimizer: torch.optim.Optimizer, number: int) -> None:
            nonlocal region
            region = -1
            self._own(recording.owned[number], storages_of(optimizer, tape_number))

        mode = RecordingMode(
            recorder, self.fake_mode, self.profile, sources, external, lambda: region
        )
        args, kwargs = tree_unflatten(fake_leaves, spec)
        optimizers = [optimizer for _, optimizer in self.swap.reach.optimizers]
        schedulers = [scheduler for _, scheduler in self.swap.reach.schedulers]
        with (
            translated(),
            recorded_host_side(optimizers, schedulers, on_enter, on_exit) as calls,
            sources.following(dict(self.swap.reach.modules)),
            patched(mode) as numbers,
            torch.autograd.set_multithreading_enabled(False),
            self.fake_mode,
            mode,
        ):
            result = function(*args, **kwargs)
        recording.call_count = mode.calls
        recording.arguments = leaves
        recording.literals = mode.literals
        recording.calls = list(calls)
        self._check_externals(list(met.values()))
        self._bind_results(recording, result, numbers)
        del result, args, kwargs
        self._bind_state(recording)
        recording.written = set(recorder.written_storages())
        self._check_twice(recording)
        return recording

    def _begin(self) -> Recording:
        """A recording that knows the tensors that there are."""
        if torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled():
            raise CaptureError(
                "a step is captured under torch.autograd.detect_anomaly(), which looks at the "
                "values of all gradients",
                todo="compile outside it, or use detect_anomaly(check_nan=False)",
            )
        recorder = _core.Recorder()
        recording = Recording(recorder, [replace(b) for b in self._bound.values()], [])
        for bound in recording.bound:
            kind = PERSISTENT.get(bound.role, "constant")
            bound.storage = recorder.bind(bound.fake, bound.name, kind, bound.is_home, True)
        recording.with_grads = frozenset(
            id(real) for real, fake, _ in self.swap.pairs if fake.is_leaf and fake.grad is not None
        )
        return recording

    def _check_externals(self, met: list[tuple[torch.Tensor, str | None]]) -> None:
        """Tensors that come from out of reach must be the same in each recording."""
        before = {_look(real) for real, _ in self._met}
        now = {_look(real) for real, _ in met}
        gone = [real for real, _ in self._met if _look(real) not in now]
        for real, where in met:
            if _look(real) in before:
                continue
            others = [one for one in gone if _look(one)[1:] == _look(real)[1:]]
            if others and all(content(one) != content(real) for one in others):
                raise CaptureError(
                    f"the step takes a tensor of shape {tuple(real.shape)} that is another one each"
                    " time from where fitstep cannot see it (an iterator, a queue, numpy)",
                    where=where,
                    todo="pass it to the step as an argument",
                )
        self._met = met

    @staticmethod
    def _own(owned: dict[int, set[int]], found: dict[int, set[Any]]) -> None:
        for parameter, storages in found.items():
            owned.setdefault(parameter, set()).update(storages)

    def _bind_inputs(self, recording: Recording, leaves: list[Any], spec: Any) -> list[Any]:
        fakes = []
        known = guarded(self.swap.reach)
        for i, leaf in enumerate(leaves):
            try:
                argument_fact(leaf, known)
            except CaptureError as error:
                raise refused_argument(error, leaves, spec, i) from None
            if not isinstance(leaf, torch.Tensor):
                fakes.append(leaf)
                continue
            if leaf.requires_grad:
                raise CaptureError(
                    f"argument {i} of the step function requires a gradient",
                    todo="pass x.detach(); make it require a gradient inside the step, or keep it "
                    "as a parameter of a module",
                )
            if leaf.device.type != "cpu" and leaf.device != self._session.torch_device:
                raise CaptureError(
                    f"argument {i} of the step function is on {leaf.device}, and the step was "
                    f"compiled for {self._session.torch_device}",
                    todo="move data to where the model is",
                )
            fake = self._fakes_of_leaves.get(i)
            if fake is None:
                fake = self._fakes_of_leaves[i] = self._fake_of_argument(leaf)
            number = recording.recorder.bind(fake, f"input {i}", "input", False, True)
            offset = int(fake.storage_offset()) * fake.element_size()
            recording.inputs.append((i, number, offset))
            fakes.append(fake)
        return fakes

    def _fake_of_argument(self, leaf: torch.Tensor) -> torch.Tensor:
        """The fake of an argument. One that the step function also reaches in another way is two
        things: the next call will bring another argument."""
        storage = leaf.untyped_storage()._cdata
        within = any(real.untyped_storage()._cdata == storage for real, _, _ in self.swap.pairs)
        if not within:
            return self.fake_mode.from_tensor(leaf)
        with self.fake_mode:
            fake = torch.empty_strided(
                leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device
            )
        self._twice[fake.untyped_storage()._cdata] = (fake, storage)
        return fake

    def _check_twice(self, recording: Recording) -> None:
        """What is an argument and within reach too may be read in both ways, written in none."""
        storages = {real.untyped_storage()._cdata: fake for real, fake, _ in self.swap.pairs}
        for fake, real_storage in self._twice.values():
            both = [fake, storages[real_storage]]
            if any(recording.recorder.storage_of(f) in recording.written for f in both):
                raise CaptureError(
                    "the step writes into a tensor that it is given as an argument and also "
                    "reaches in another way",
                    todo="pass a copy as the example and at each call: x.clone()",
                )

    def _bind_results(self, recording: Recording, result: Any, numbers: Any) -> None:
        paths, recording.spec = tree_flatten_with_path(in_parts(result))
        for path, leaf in paths:
            item = numbers.tensor_of(leaf)
            tensor = leaf if isinstance(leaf, torch.Tensor) else item
            if tensor is None:
                check_constant(leaf, f"result{keystr(path)}", self.swap.reach, numbers)
                recording.results.append(Result(constant=leaf))
                continue
            if not isinstance(tensor, FakeTensor):
                raise CaptureError(
                    "the step function returns a tensor that it did not compute",
                    todo="return tensors that depend on the step, and keep others outside",
                )
            recording.recorder.output(tensor)
            recording.results.append(
                Result(index=self._output_count(recording), as_number=item is not None)
            )

    @staticmethod
    def _output_count(recording: Recording) -> int:
        return sum(r.index >= 0 for r in recording.results) + len(recording.given)

    def _bind_state(self, recording: Recording) -> None:
        """What the step left in Python: new homes, copies into homes, tensors for the user."""
        for rebinding in self.swap.final():
            made = [tensor for _, tensor in rebinding.tensors]
            key = _entry(rebinding.container, rebinding.key, rebinding.kind)
            if key in self._done and [*map(id, self._done[key])] == [*map(id, made)]:
                continue
            self._done[key] = made
            if rebinding.role == "grad":
                self._bind_grad(recording, rebinding)
            elif rebinding.kind == "flag":
                raise CaptureError(
                    f"the step changes {rebinding.path}",
                    todo="set requires_grad before the step is compiled",
                )
            else:
                self._bind_entry(recording, rebinding)

    def _bind_grad(self, recording: Recording, rebinding: Rebinding) -> None:
        if rebinding.after is None:
            recording.cleared.append(rebinding.container)
            return
        recording.grads.append(rebinding.container)
        name = self.grad_name(rebinding.container)
        known = self._names.get(name)
        if known is not None and recording.recorder.storage_of(known.fake) >= 0:
            if known.fake is not rebinding.after:
                recording.recorder.rebind(rebinding.after, known.fake)
            return
        recording.grad_owners[name] = rebinding.container
        recording.fresh.append((name, "gradient", rebinding.after))

    def grad_name(self, real: torch.Tensor) -> str:
        return self.name_of(real) + ".grad"

    def _bind_entry(self, recording: Recording, rebinding: Rebinding) -> None:
        pending = False
        base = self._entry_name(rebinding)
        for long_path, fake in rebinding.tensors:
            path = base + long_path[len(rebinding.path) :]
            if fake.untyped_storage()._cdata in self._bound:
                continue
            known = self._names.get(path)
            if known is not None and tuple(known.fake.shape) == tuple(fake.shape):
                recording.recorder.rebind(fake, known.fake)
            elif rebinding.role in ("optimizer_state", "buffer", "group"):
                recording.fresh.append((path, "optimizer_state", fake))
                self._await(recording, rebinding, path, fake)
                pending = True
            else:
                recording.recorder.output(fake)
                index = self._output_count(recording)
                recording.given.append((fake, index))
                pending = True
        if pending or rebinding.kind == "gone":
            recording.rebindings.append(rebinding)

    def _await(
        self, recording: Recording, rebinding: Rebinding, name: str, fake: torch.Tensor
    ) -> None:
        for _, optimizer in self.swap.reach.optimizers:
            if rebinding.container is not optimizer.state or not isinstance(rebinding.value, dict):
                continue
            recording.states[id(rebinding)] = optimizer
            for key, value in rebinding.value.items():
                if value is fake:
                    awaited = Awaited(optimizer, rebinding.key, key, name, fake)
                    recording.awaited.append(awaited)

    def _entry_name(self, rebinding: Rebinding) -> str:
        """The one name of an entry, whatever path this function reaches it by."""
        for _, optimizer in self.swap.reach.optimizers:
            if rebinding.container is optimizer.state:
                known = self._names_of_parameter(rebinding.key)
                identity = ("state", id(optimizer), id(rebinding.key))
                proposal = f"{self._optimizer_name(optimizer)}.state[{known}]"
                return self._session.names.unique(identity, weakref.ref(optimizer), proposal)
        container = rebinding.container
        key = rebinding.key if isinstance(rebinding.key, str | int) else id(rebinding.key)
        return self._session.names.unique(
            ("entry", id(container), key), lambda: container, rebinding.path
        )

    def _names_of_parameter(self, key: object) -> str:
        return self.name_of(key) if isinstance(key, torch.Tensor) else repr(key)

    def _optimizer_name(self, optimizer: torch.optim.Optimizer) -> str:
        return next(path for path, one in self.swap.reach.optimizers if one is optimizer)

    def go_on(self, recording: Recording) -> None:
        """Makes what the recording left the state that the next one starts from."""
        for path, kind, fake in recording.fresh:
            self._add(Bound(path, "grad" if kind == "gradient" else kind, fake, None))
