"""Check what compilers and formatters do not: layers, sizes, words, stale names in documents.

    python tools/tidy.py [ROOT]

Each rule gets a file's path and text and returns (line, message) pairs. Exit status 1 if any.
A rule is broken on purpose only by an entry in EXCEPTIONS, with the reason beside it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from links import dead_anchors, unlisted

Fault = tuple[int, str]
Rule = Callable[[PurePosixPath, str], Iterator[Fault]]

# Folder -> folders of the core that it may include (as in ARCHITECTURE.md).
LAYERS: dict[str, set[str]] = {"base": {"base"}}
LAYERS["program"] = LAYERS["base"] | {"program"}
LAYERS["machine"] = LAYERS["program"] | {"machine"}
LAYERS["plan"] = LAYERS["machine"] | {"plan"}
LAYERS["simulate"] = LAYERS["plan"] | {"simulate"}
LAYERS["planner"] = LAYERS["simulate"] | {"planner"}
LAYERS["run"] = LAYERS["plan"] | {"run"}
LAYERS["report"] = LAYERS["simulate"] | LAYERS["run"] | {"report"}
CORE = set(LAYERS)
LAYERS["fitstep_cuda"] = LAYERS["run"]
LAYERS["fitstep_torch"] = LAYERS["planner"] | LAYERS["report"]
LAYERS["fitstep_torch_cuda"] = LAYERS["fitstep_torch"]
LAYERS["cli"] = CORE

# Layer -> its rooms in order: each includes the faces (`NAME.h` beside the folder) of those before.
ROOMS: dict[str, list[str]] = {
    "fitstep/planner": [
        "values",
        "schedule",
        "layout",
        "recompute",
        "offload",
        "bounds",
        "candidates",
        "policies",
        "search",
        "orders",
        "packing",
        "ask",
    ],
    "fitstep_torch": [
        "tensors",
        "device",
        "own_kernels",
        "operators",
        "lower",
        "profile",
        "record",
        "run",
        "bind",
    ],
}
MOST_SOURCES = 20

# Start of an outside include -> layers that may use it.
TORCH = {"fitstep_torch", "fitstep_torch_cuda"}
OUTSIDE: dict[str, set[str]] = {
    "nlohmann/": {"machine", "plan", "report", "cli"},
    "zstd.h": {"program", "run"},
    "xxhash.h": {"run", "fitstep_torch"},
    "CLI/": {"cli"},
    "torch/": TORCH,
    "ATen/": TORCH,
    "c10/": TORCH,
    "pybind11/": TORCH,
    "Python.h": TORCH,
    "cuda": {"fitstep_cuda", "fitstep_torch_cuda"},
    "gtest/": set(),
    "rapidcheck": set(),
    "benchmark/": set(),
}
ADAPTERS = {"fitstep_torch", "fitstep_cuda", "fitstep_torch_cuda"}

LINE_LIMITS = {
    "README.md": 150,
    "ARCHITECTURE.md": 120,
    "CONTRIBUTING.md": 60,
    "CMakeLists.txt": 150,
}
CODE = {".h", ".cpp", ".py"}
TEXT = CODE | {".md", ".cmake", ".sh"}

# Words we do not use (left: pattern; right: what we say), everywhere and in the core only.
WORDS = {
    r"\bswap(s|ped|ping)?[ -](out|in)\b": "evict, prefetch",
    r"\brematerial": "recompute",
    r"\bstash": "saved",
    r"\blive range": "lifetime",
    r"\blifespan": "lifetime",
    r"\bmemory space": "tier",
    r"\bcomput(e|ation|ational) graph\b": "program",
}
CORE_WORDS = {r"\bgraphs?\b": "program", r"\bchunks?\b": "block", r"\bbubbles?\b": "stall"}
HARDWARE_WORDS = r"(?<![a-z0-9])(d2h|h2d)(?![a-z0-9])"  # Only below run/device.h.

# (path, name of the rule) -> why it may be broken there.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("fitstep/planner/parts.cpp", "core_habits"): "asks in a build for the ablation alone",
    ("tests/hunt/cases/models/installed.py", "imports"): "finds packages that are not installed",
    ("tools/tidy.py", "words"): "lists the words",
    ("tools/test_tidy.py", "words"): "shows that they are found",
    ("tools/tidy.py", "todo"): "looks for the word",
    ("tools/test_tidy.py", "todo"): "shows that it is found",
    ("tools/tidy.py", "nolint"): "looks for the word",
    ("tools/test_tidy.py", "nolint"): "shows that it is found",
}


def layer_of(path: PurePosixPath) -> str | None:
    """The row of LAYERS that governs a C++ file; None for tests/ and benchmarks/."""
    if path.suffix not in {".h", ".cpp"}:
        return None
    parts = path.parts
    if parts[0] == "fitstep" and len(parts) > 2:
        return parts[1]
    return parts[0] if parts[0] in LAYERS else None


def numbered(text: str) -> Iterator[Fault]:
    return iter(enumerate(text.splitlines(), 1))


def includes(text: str) -> Iterator[Fault]:
    for number, line in numbered(text):
        if found := re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line):
            yield number, found.group(1)


def included_layer(target: str) -> str | None:
    parts = target.split("/")
    if parts[0] == "fitstep" and len(parts) > 2:
        return parts[1]
    return parts[0] if parts[0] in LAYERS or parts[0] == "tests" else None


def layers(path: PurePosixPath, text: str) -> Iterator[Fault]:
    layer = layer_of(path)
    if layer is None:
        return
    if layer not in LAYERS:
        yield 1, f"folder '{layer}' is not in the table of layers"
        return
    is_test = path.name.endswith("_test.cpp")
    allowed = LAYERS[layer] | (ADAPTERS & {layer})
    if layer == "fitstep_torch_cuda":
        allowed = allowed | ADAPTERS
    if layer == "cli":
        allowed = allowed | {"cli", "fitstep_cuda"}
    if is_test:
        allowed = allowed | {"tests"}
    for number, target in includes(text):
        other = included_layer(target)
        if other is not None and other not in allowed:
            yield number, f"{layer} may not include {other} ({target})"
        for prefix, users in OUTSIDE.items():
            test_library = not users
            if target.startswith(prefix) and layer not in users and not (test_library and is_test):
                yield number, f"{layer} may not include {target}"


Room = tuple[str, str]  # The layer, and the folder in it.


def room_of(path: PurePosixPath) -> Room | None:
    """The room that a file lies in."""
    house = path.parent.parent.as_posix()
    return (house, path.parent.name) if house in ROOMS else None


def faced_room(path: PurePosixPath) -> Room | None:
    """The room that a header is the face of."""
    house = path.parent.as_posix()
    return (house, path.stem) if path.stem in ROOMS.get(house, []) else None


def rooms(path: PurePosixPath, text: str) -> Iterator[Fault]:
    """Includes go through faces, and only to rooms in front."""
    if path.suffix not in {".h", ".cpp"}:
        return
    room = room_of(path)
    if room is not None and room[1] not in ROOMS[room[0]]:
        yield 1, f"folder '{room[1]}' is not in the order of rooms"
        return
    is_test = path.name.endswith("_test.cpp")
    for number, target in includes(text):
        other, face = room_of(PurePosixPath(target)), faced_room(PurePosixPath(target))
        if other is not None and other not in {room, faced_room(path)}:
            yield number, f"include {'/'.join(other)}.h, the face of that room"
        if room is None or face is None or is_test or face[0] != room[0]:
            continue
        order = ROOMS[room[0]]
        if order.index(face[1]) >= order.index(room[1]):
            yield number, f"{room[1]} may not include {target}, which is not in front of it"


def crowded(root: Path, paths: list[PurePosixPath]) -> Iterator[str]:
    """Rooms without a face; folders with more sources than one overlooks. A unit test belongs to
    the source beside it."""
    sources: Counter[PurePosixPath] = Counter()
    for path in paths:
        is_unit_test = path.name.endswith("_test.cpp") and path.parts[0] != "tests"
        sources[path.parent] += path.suffix in {".cpp", ".py"} and not is_unit_test
    for folder, count in sorted(sources.items()):
        if count > MOST_SOURCES:
            yield f"{folder}: {count} sources, at most {MOST_SOURCES}"
        if folder.parent.as_posix() in ROOMS and not (root / folder).with_suffix(".h").exists():
            yield f"{folder}: no header of the same name beside it"


def verifier(path: PurePosixPath, text: str) -> Iterator[Fault]:
    """The verifier shares no code with what makes plans or places them."""
    if not path.as_posix().startswith("fitstep/plan/verify") or path.name.endswith("_test.cpp"):
        return
    for number, target in includes(text):
        other = included_layer(target)
        if other is not None and other not in {"base", "program", "plan"}:
            yield number, f"the verifier may not include {target}"


def sizes(path: PurePosixPath, text: str) -> Iterator[Fault]:
    limit = LINE_LIMITS.get(path.as_posix())
    # Whole loops are as long as their sources.
    is_short = path.name != "demo.py" and "loops" not in path.parts
    if path.parts[0] == "examples" and is_short and path.suffix == ".py":
        limit = 60
    elif path.suffix == ".h":
        limit = 200
    elif path.suffix in CODE:
        limit = 400
    count = len(text.splitlines())
    if limit is not None and count > limit:
        yield count, f"{count} lines, at most {limit}"


def columns(path: PurePosixPath, text: str) -> Iterator[Fault]:
    for number, line in numbered(text):
        # A Markdown table row and an address cannot be broken.
        unbreakable = path.suffix == ".md" and (line.lstrip().startswith("|") or "://" in line)
        if len(line) > 100 and not unbreakable:
            yield number, f"{len(line)} columns, at most 100"


def headers(path: PurePosixPath, text: str) -> Iterator[Fault]:
    if path.suffix != ".h":
        return
    if not text.startswith("//"):
        yield 1, "a header opens with what it is, in 3-15 lines of comment"
    if "#pragma once" not in text.splitlines():
        yield 1, "no #pragma once"


def imports(path: PurePosixPath, text: str) -> Iterator[Fault]:
    """Python's modules are found as packages, and the package does not know the kit beside it."""
    if path.suffix != ".py":
        return
    for number, line in numbered(text):
        is_of_package = path.parts[:2] == ("python", "fitstep")
        if is_of_package and re.match(r"\s*(from|import) fitstep_kit\b", line):
            yield number, "fitstep may not import fitstep_kit, which is not shipped"
        if path.parts[0] in {"tests", "benchmarks"} and re.search(r"\bsys\.path\b", line):
            yield number, "import a package: fitstep_kit has what tests and benchmarks share"


def core_habits(path: PurePosixPath, text: str) -> Iterator[Fault]:
    """No environment variables and no catch in the core (fitstep_torch translates exceptions)."""
    if path.parts[0] != "fitstep" or path.name.endswith("_test.cpp"):
        return
    for number, line in numbered(text):
        if re.search(r"\bgetenv\s*\(", line):
            yield number, "the core reads no environment variables; pass the value down"
        if re.search(r"\bcatch\s*\(", line):
            yield number, "the core catches nothing; return a Result"


def words(path: PurePosixPath, text: str) -> Iterator[Fault]:
    in_core = path.parts[0] == "fitstep"
    rules = WORDS | (CORE_WORDS if in_core else {})
    below_device = path.parts[:2] == ("fitstep", "run") or path.parts[0].endswith("_cuda")
    for number, line in numbered(text):
        for pattern, ours in rules.items():
            if found := re.search(pattern, line, re.IGNORECASE):
                yield number, f"we do not say '{found.group()}' but: {ours}"
        if not below_device and (found := re.search(HARDWARE_WORDS, line, re.IGNORECASE)):
            yield number, f"'{found.group()}' only below run/device.h; we say evict, prefetch"


def todo(path: PurePosixPath, text: str) -> Iterator[Fault]:
    if path.suffix not in CODE:
        return
    for number, line in numbered(text):
        if re.search(r"\b(TODO(?!\(#\d+\))|FIXME|XXX)\b", line):
            yield number, "write TODO(#number): an intention without an issue is lost"


def nolint(path: PurePosixPath, text: str) -> Iterator[Fault]:
    if path.suffix not in CODE:
        return
    for number, line in numbered(text):
        if re.search(r"NOLINT(NEXTLINE|BEGIN|END)?(?!\w|\([\w.,\- *]+\))", line):
            yield number, "a NOLINT names its check"


RULES: list[Rule] = [
    layers,
    rooms,
    verifier,
    sizes,
    columns,
    headers,
    imports,
    core_habits,
    words,
    todo,
    nolint,
]


def stale_names(root: Path, path: PurePosixPath, text: str) -> Iterator[Fault]:
    """Paths that a document names, in backticks or links, and that do not exist."""
    if path.suffix != ".md" or path.name == "CHANGELOG.md":
        return
    tops = {entry.name for entry in root.iterdir()}
    for number, line in numbered(text):
        for name in re.findall(r"`([\w.*/-]+/[\w.*/-]*)`", line):
            if name.split("/")[0] in tops and not any(root.glob(name.rstrip("/"))):
                yield number, f"`{name}` does not exist"
        for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", line):
            if not (root / path.parent / link).exists():
                yield number, f"link to {link}, which does not exist"


def tracked(root: Path) -> list[PurePosixPath]:
    """What git tracks or would track, so that build output is not judged."""
    answer = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = sorted({PurePosixPath(line) for line in answer.stdout.splitlines()})
    return [path for path in paths if (root / path).is_file()]


def check_file(root: Path, path: PurePosixPath) -> Iterator[str]:
    if path.suffix not in TEXT and path.name != "CMakeLists.txt":
        return
    text = (root / path).read_text(encoding="utf-8")
    found = [(rule.__name__, fault) for rule in RULES for fault in rule(path, text)]
    found += [("stale_names", fault) for fault in stale_names(root, path, text)]
    found += [("dead_anchors", fault) for fault in dead_anchors(root, path, text)]
    for rule_name, (line, message) in found:
        if (path.as_posix(), rule_name) not in EXCEPTIONS:
            yield f"{path}:{line}: {message} [{rule_name}]"


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    paths = tracked(root)
    faults = [fault for path in paths for fault in check_file(root, path)]
    faults += [*crowded(root, paths), *unlisted(root, paths)]
    print("\n".join(faults) if faults else "tidy: nothing found")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
