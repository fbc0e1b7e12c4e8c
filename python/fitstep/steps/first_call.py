"""Steps that their first call compiles: `@fitstep.step(...)`, and `compile` without `example=`.

defined, often at import        nothing runs; model and optimizer need not exist yet
first call, with its arguments  what `compile` does, then the call
later calls                     as those of any compiled step
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
import types
import warnings
from dataclasses import replace
from typing import Any

from ..errors import FitstepError
from ..follow.following import current
from ..follow.results import detached
from .making import Making
from .step import Step


class FirstCallStep(Step):
    """A step that is compiled by its first call. On a class it is a method: each object has a step
    of its own. If the first call raises, the next call is the first: after an error of fitstep
    nothing has changed, after an error of the function what plain PyTorch has changed."""

    def __init__(
        self, making: Making, name: str | None = None, of: FirstCallStep | None = None
    ) -> None:
        # For the step of an object: _method, the attribute of the class, and _of, what is there.
        vars(self).update(_making=making, _method=name, _of=of, _first_call=threading.Lock())
        self._start_anew()

    def _start_anew(self) -> None:
        kept = {name: vars(self)[name] for name in ("_making", "_method", "_of", "_first_call")}
        vars(self).clear()
        vars(self).update(kept, _is_made=False)
        functools.update_wrapper(self, self._making.subject.function, updated=())

    def __getattr__(self, name: str) -> Any:
        if name in _OF_MADE and not vars(self).get("_is_made"):
            raise FitstepError(
                "the step is not compiled yet: its first call compiles it",
                todo="call the step first, or pass example= to fitstep.compile",
            )
        return super().__getattr__(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compiles the step with these arguments if this is the first call, or if the step was
        closed; then runs it. Raises what `fitstep.compile` raises, and what a call raises."""
        if not self._is_made or self._session.access.is_closed:
            outer = current()
            if outer is not None and not outer.is_running:  # It is a part of this other step.
                return detached(self.function(*args, **kwargs))
            error = self._make(args, kwargs)
            if error is not None:
                return self._raise_as_plain(error, args, kwargs)
        return super().__call__(*args, **kwargs)

    def _raise_as_plain(self, error: str, args: Any, kwargs: Any) -> Any:
        """Calls the function, which raises its own error here, as in its recording, and leaves what
        plain PyTorch leaves: the loop may catch the error and go on."""
        result = detached(self.function(*args, **kwargs))
        warnings.warn(
            f"{self._name} raised {error} while fitstep recorded its first call, and did not in "
            "plain PyTorch, so this call ran outside the budget; the next call is recorded anew",
            stacklevel=3,
        )
        return result

    def _make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Compiles the step. Returns the error that the function itself has raised, if it has."""
        if not self._first_call.acquire(blocking=False):
            raise FitstepError(
                "the first call of this step is compiling it, in another thread or further up",
                todo="call the step once before threads call it",
            )
        try:
            if self._is_made and not self._session.access.is_closed:
                return None
            self._start_anew()
            del vars(self)["__wrapped__"]  # Until it is made, attributes are the step's own.
            try:
                self._making.make(self, args, kwargs)
                vars(self)["_is_made"] = True
            except BaseException as error:
                self._start_anew()
                if isinstance(error, FitstepError) or not isinstance(error, Exception):
                    raise
                return repr(error)
            return None
        finally:
            self._first_call.release()

    def close(self) -> None:
        """Frees the step's memory, as for any step; the next call compiles it anew."""
        if self._is_made:
            super().close()

    def __repr__(self) -> str:
        if self._is_made:
            return super().__repr__()
        return f"<fitstep step: the first call of {self._name} compiles it>"

    @property
    def _name(self) -> str:
        function = self._making.subject.function
        return str(getattr(function, "__qualname__", type(function).__name__))

    # -- as a method -------------------------------------------------------------------------

    def __set_name__(self, owner: type, name: str) -> None:
        vars(self)["_method"] = name

    def __get__(self, instance: Any, owner: type | None = None) -> FirstCallStep:
        """The step of `instance`, which it keeps."""
        function = self._making.subject.function
        if instance is None or not isinstance(function, types.FunctionType):
            return self
        key = f"_fitstep_{self._place_in(instance)}"
        try:
            kept = vars(instance)
        except TypeError:
            raise FitstepError(
                f"{type(instance).__name__} has __slots__ and no __dict__, so its objects cannot "
                f"keep a compiled step for {function.__qualname__}()",
                todo='add "__dict__" to __slots__, or compile a function outside the class',
            ) from None
        found = kept.get(key)
        # A shallow copy of an object has the step of the original. The method may be another one by
        # now: replaced in the class, or reloaded.
        if isinstance(found, FirstCallStep) and found._is_of(self, instance):
            return found
        bound = self._bound_to(types.MethodType(function, instance))
        if isinstance(instance, type):  # Under @classmethod.
            setattr(instance, key, bound)
        else:
            kept[key] = bound
        return bound

    def _is_of(self, method: FirstCallStep, instance: Any) -> bool:
        return vars(self)["_of"] is method and self.function.__self__ is instance

    def _place_in(self, instance: Any) -> str:
        """Where among the classes of the object this step is, and its name there. Functions of one
        factory have one name, and so may a class and its base."""
        owners = type(instance).__mro__
        if isinstance(instance, type):
            owners = (*instance.__mro__, *owners)
        for i, owner in enumerate(owners):
            for name, value in list(vars(owner).items()):
                if value is self or (isinstance(value, classmethod) and value.__func__ is self):
                    return f"{owner.__qualname__}.{name} {len(owners) - i}"
        return str(self._making.subject.function.__qualname__)

    def _bound_to(self, method: types.MethodType) -> FirstCallStep:
        subject = copy.copy(self._making.subject)
        subject.function = method
        making, of = replace(self._making, subject=subject), vars(self)["_of"]
        return FirstCallStep(making, vars(self)["_method"], self if of is None else of)

    @property
    def function(self) -> Any:
        """The step function, which the first call compiles."""
        return self._making.subject.function

    # -- copies ------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Returns itself, as copies of functions do; for an object's step that of the copy, which
        its first call compiles."""
        subject, function = self._making.subject, self.function
        if not isinstance(function, types.MethodType):
            return self
        if subject.models or subject.optimizers:
            return super().__deepcopy__(memo)
        made = self._bound_to(copy.deepcopy(function, memo))
        memo[id(self)] = made
        return made

    def __reduce__(self) -> Any:
        """Pickles by name, as functions are; the copy is compiled by its first call."""
        function, method = self.function, vars(self)["_method"]
        owner = getattr(function, "__self__", None)
        if method and isinstance(getattr(type(owner), method, None), FirstCallStep):
            return getattr, (owner, method)
        name = getattr(function, "__qualname__", "")
        found: Any = sys.modules.get(getattr(function, "__module__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else super().__reduce__()


# Attributes that Step.__init__ and prepare() set.
_OF_MADE = frozenset((
    "_maker", "_session", "_programs", "_call", "_following", "audits", "example",
    "recorded_calls", "compile_seconds",
))  # fmt: skip
