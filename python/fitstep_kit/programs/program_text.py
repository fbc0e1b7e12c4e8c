"""Writes program files (docs/reference/program-format.md) op by op, without a capture.

    program = ProgramText("tiny")
    x = program.storage("x", 64, "input", has_content=True)
    y = program.storage("y", 64)
    program.op("relu", "activation", reads=[x], writes=[y])
    text = program.text()

Versions and lifetimes are counted here: a storage is born by its first write, each write makes a
new version, and plain PyTorch drops a temporary behind the last op that uses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

EXTERNAL = {"input", "output", "constant", "generator"}


@dataclass
class _Storage:
    name: str
    size_bytes: int
    kind: str
    is_persistent: bool
    has_content: bool
    version: int = 0
    birth: int = -1
    death: int = 0


class ProgramText:
    """A program that grows by one op at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._storages: list[_Storage] = []
        self._ops: list[str] = []
        self.op_count = 0

    def storage(
        self,
        name: str,
        size_bytes: int,
        kind: str = "temporary",
        *,
        is_persistent: bool = False,
        has_content: bool = False,
    ) -> int:
        """A new storage's number."""
        self._storages.append(_Storage(name, size_bytes, kind, is_persistent, has_content))
        return len(self._storages) - 1

    def size_bytes(self, storage: int) -> int:
        return self._storages[storage].size_bytes

    def op(
        self,
        name: str,
        kind: str = "other",
        *,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
        flops: int = 0,
        time_ps: int = 0,
        is_pure: bool | None = None,
        draws_from: int | None = None,
    ) -> None:
        """The next op. What is in `reads` and `writes` is changed in place.

        `is_pure`: may run again; by default, if it writes nothing but temporaries. `draws_from`: a
        generator; a second form draws the same numbers again from its old state.
        """
        if is_pure is None:
            is_pure = all(self._is_temporary(s) for s in writes)
        used = [self._storages[s] for s in dict.fromkeys([*reads, *writes])]
        for storage in used:
            if storage.birth < 0:
                storage.birth = self.op_count
            storage.death = self.op_count + 1
        read_words = [f"{s}.{self._storages[s].version}" for s in dict.fromkeys(reads)]
        for number in writes:
            self._storages[number].version += 1
        write_words = [f"{s}.{self._storages[s].version}" for s in writes]
        size = sum(storage.size_bytes for storage in used)
        words = f'op {self.op_count} "{name}" {kind}'
        words += " random" if draws_from is not None else ""
        words += (f" flops {flops}" if flops else "") + (f" bytes {size}" if size else "")
        self._ops.append(words)
        time = f" time {time_ps}" if time_ps else ""
        if draws_from is None:
            pure = " pure" if is_pure else ""
            self._ops.append(f'form "default"{time}{pure}' + _lists(read_words, write_words))
        else:
            self._add_random_forms(draws_from, time, read_words, write_words)
        self.op_count += 1

    def _add_random_forms(
        self, generator: int, time: str, reads: list[str], writes: list[str]
    ) -> None:
        state = self._storages[generator]
        reads = [*reads, f"{generator}.{state.version}"]
        state.version += 1
        drawn = [*writes, f"{generator}.{state.version}"]
        self._ops.append(f'form "default"{time}' + _lists(reads, drawn))
        again = f'form "from the saved generator"{time} restores'
        self._ops.append(again + _lists(reads, writes))

    def _is_temporary(self, storage: int) -> bool:
        return self._storages[storage].kind == "temporary"

    def text(self, comment: str = "") -> str:
        """The file's content; `comment` goes behind its first line."""
        lines = ["fitstep program 1"]
        lines += [f"# {line}".rstrip() for line in comment.splitlines()]
        lines.append(f'name "{self._name}"')
        lines += [self._storage_line(i) for i in range(len(self._storages))]
        lines += self._ops
        lines.append(f"end calls 0 storages {len(self._storages)} ops {self.op_count}\n")
        return "\n".join(lines)

    def _storage_line(self, number: int) -> str:
        one = self._storages[number]
        lives_on = one.is_persistent or one.kind in EXTERNAL
        birth = 0 if one.has_content else max(one.birth, 0)
        death = self.op_count if lives_on else max(one.death, birth)
        return (
            f'storage {number} "{one.name}" {one.size_bytes} {one.kind}'
            + (" persistent visible" if one.is_persistent else "")
            + (" start" if one.has_content else "")
            + f" recorded {birth}-{death}"
        )


def _lists(reads: list[str], writes: list[str]) -> str:
    found = " reads " + " ".join(reads) if reads else ""
    return found + (" writes " + " ".join(writes) if writes else "")
