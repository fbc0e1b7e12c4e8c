"""The pictures of docs/ are those that tools/pictures.py draws, and what they show is right."""

from pathlib import Path

import pictures
import pytest


def test_the_pictures_are_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = pictures.FOLDER
    monkeypatch.setattr(pictures, "FOLDER", tmp_path)
    pictures.main()
    for drawn in sorted(tmp_path.iterdir()):
        assert drawn.read_text() == (kept / drawn.name).read_text(), "run tools/pictures.py"


@pytest.mark.parametrize(("recompute", "ops", "peak"), [(False, 12, 7), (True, 15, 5)])
def test_the_bytes_are_those_of_the_lifetimes(recompute: bool, ops: int, peak: int) -> None:
    # Kept: at b5 all six activations and g5. Recomputed: at b4 a1, a3, a4', g5 and g4.
    order = pictures.order(recompute=recompute)
    assert len(order) == ops
    assert max(pictures.live_bytes(order, pictures.lives(order))) == peak


def test_every_op_finds_what_it_reads() -> None:
    order = pictures.order(recompute=True)
    values = pictures.lives(order)
    for tick, op in enumerate(order):
        layer = int(op[1])
        reads = [f"a{layer}", f"g{layer + 1}"] if op[0] == "b" else [f"a{layer - 1}"]
        for name in reads:
            if name not in ("a-1", f"g{pictures.LAYERS}"):
                assert any(
                    one.name.rstrip("'") == name and one.first < tick <= one.last for one in values
                ), (op, name)


def test_no_two_values_have_one_address_at_one_tick() -> None:
    order = pictures.order(recompute=True)
    values = pictures.lives(order)
    placed = pictures.offsets(values)
    cells = [(placed[one.name], tick) for one in values for tick in range(one.first, one.last + 1)]
    assert len(cells) == len(set(cells))
    assert max(placed.values()) + 1 == 5, "no more than the peak"


def test_the_parts_of_the_budget_are_those_of_the_tutorial() -> None:
    page = (pictures.FOLDER.parent / "tutorial.md").read_text()
    assert f"budget {pictures.BUDGET} MiB (60 % of the plain peak {pictures.PLAIN} MiB)" in page
    total = sum(size for _, size, _ in pictures.PARTS)
    assert f"total {total:.2f} MiB" in page
