"""Tensors of other layouts: sparse graphs and embeddings, nested batches, quantized values."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from kit import case
from torch import Tensor, nn
from worlds import Bench, batches, mlp, sgd


def graph(rows: int = 6, seed: int = 3) -> Tensor:
    """A dense adjacency matrix."""
    return (torch.rand(rows, rows, generator=torch.Generator().manual_seed(seed)) > 0.5).float()


@case("sparse")
def a_graph_convolution() -> Any:
    b, edges = Bench(), graph().to_sparse()

    def step(x: Tensor, y: Tensor) -> Tensor:
        h = torch.sparse.mm(edges, b.model[0](x)).tanh()
        return b.update(F.cross_entropy(edges @ b.model[2](h), y))

    return b.world(step)


@case("sparse")
def a_graph_in_compressed_rows() -> Any:
    b, edges = Bench(make=sgd), graph().to_sparse_csr()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(edges @ b.model(x), y))

    return b.world(step)


@case("sparse")
def gradients_that_two_calls_add_up_beside_sparse_ones() -> Any:
    b = Bench(model=nn.Linear(8, 4), make=sgd)
    table = nn.Embedding(6, 8, sparse=True)
    own = sgd([*b.model.parameters(), *table.parameters()])

    def step(_x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(b.model(table(y)), y)
        loss.backward()
        b.log.append(len(b.log))
        if len(b.log) % 2 == 0:
            own.step()
            own.zero_grad(set_to_none=False)
        return loss

    return b.world(step, own)


@case("sparse")
def another_graph_at_each_call() -> Any:
    b = Bench()
    graphs = [graph(seed=i).to_sparse() for i in range(5)]

    def step(x: Tensor, y: Tensor) -> Tensor:
        edges = graphs[len(b.log)]
        b.log.append(edges._nnz())
        return b.update(F.cross_entropy(torch.sparse.mm(edges, b.model(x)), y))

    return b.world(step)


@case("sparse")
def a_graph_whose_weights_learn() -> Any:
    b, places = Bench(), graph().to_sparse().indices()
    weights = nn.Parameter(torch.linspace(0, 1, places.shape[1]))
    own = sgd([weights])

    def step(x: Tensor, y: Tensor) -> Tensor:
        edges = torch.sparse.softmax(torch.sparse_coo_tensor(places, weights.exp(), (6, 6)), 1)
        own.zero_grad()
        loss = b.update(F.cross_entropy(torch.sparse.mm(edges, b.model(x)), y))
        own.step()
        return loss

    return b.world(step, weights, own)


@case("sparse")
def a_graph_whose_weights_change_in_place() -> Any:
    b, edges = Bench(), graph().to_sparse().coalesce()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.update(F.cross_entropy(torch.sparse.mm(edges, b.model(x)), y))
        edges.values().mul_(0.9)
        edges.values().add_(0.1 * loss.detach())
        return loss

    return b.world(step, edges)


def embedding(make: Any, **options: Any) -> Any:
    """Words whose gradients are sparse."""
    words = nn.Embedding(10, 8, sparse=True, **options)
    b = Bench()
    own = make(words.parameters())
    generator = torch.Generator().manual_seed(3)

    def step(x: Tensor, y: Tensor) -> Tensor:
        ids = torch.randint(10, (6, 2), generator=generator)
        own.zero_grad()
        loss = b.update(F.cross_entropy(b.model(words(ids).sum(1)), y))
        own.step()
        return loss

    return b.world(step, words, own, generator)


@case("sparse")
def sparse_adam() -> Any:
    return embedding(lambda p: torch.optim.SparseAdam(list(p), lr=0.1))


@case("sparse")
def sparse_gradients_in_sgd() -> Any:
    return embedding(lambda p: torch.optim.SGD(p, lr=0.1))


@case("sparse")
def sparse_gradients_in_adagrad() -> Any:
    return embedding(lambda p: torch.optim.Adagrad(p, lr=0.1), padding_idx=0)


@case("sparse")
def sparse_gradients_that_accumulate() -> Any:
    words = nn.Embedding(10, 8, sparse=True)
    b = Bench()
    own = torch.optim.SGD(words.parameters(), lr=0.1)

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.log.append(0)
        loss = F.cross_entropy(b.model(words(y)), y) / 2
        loss.backward()
        if len(b.log) % 2 == 0:
            for one in (b.opt, own):
                one.step()
                one.zero_grad()
        return loss

    return b.world(step, words, own)


@case("sparse")
def a_bag_of_words() -> Any:
    words = nn.EmbeddingBag(10, 8, sparse=True, mode="mean")
    b = Bench()
    own = torch.optim.SGD(words.parameters(), lr=0.1)

    def step(x: Tensor, y: Tensor) -> Tensor:
        own.zero_grad()
        loss = b.update(F.cross_entropy(b.model(words(torch.stack([y, y + 1], 1))), y))
        own.step()
        return loss

    return b.world(step, words, own)


@case("sparse")
def a_dense_gradient_made_sparse() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        small = (out * (out > 0)).to_sparse()
        return b.update(b.loss(x, y) + 0.1 * torch.sparse.sum(small).square())

    return b.world(step)


@case("sparse")
def a_sparse_argument() -> Any:
    b = Bench()
    calls = [(x.relu().to_sparse(), y) for x, y in batches()]

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(torch.sparse.mm(x, b.model[0].weight.t())[:, :4], y))

    return b.world(step, calls=calls)


@case("sparse")
def a_nested_batch() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        parts = torch.nested.as_nested_tensor([b.model(x[:2]), b.model(x[2:])])
        return b.update(F.cross_entropy(parts.to_padded_tensor(0.0).flatten(0, 1)[:6], y))

    return b.world(step)


@case("sparse")
def a_transformer_s_fast_path() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    b, teacher = Bench(), nn.TransformerEncoder(layer, 1).eval()

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            seen = teacher(x.view(2, 3, 8), src_key_padding_mask=x.view(2, 3, 8)[..., 0] < -0.5)
        seen = F.pad(seen, (0, 0, 0, 3 - seen.shape[1]))
        return b.update(F.cross_entropy(b.model(x + seen.reshape(6, 8)), y))

    return b.world(step, teacher)


@case("sparse")
def values_that_are_quantized() -> Any:
    b = Bench(mlp())

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        with torch.no_grad():
            coarse = torch.quantize_per_tensor(b.model(x), 0.1, 0, torch.qint8).dequantize()
        b.log.append(float(coarse.sum()))
        return loss

    return b.world(step)


@case("sparse")
def a_graph_that_changes_before_its_use() -> Any:
    b, edges = Bench(), graph().to_sparse().coalesce()

    def step(x: Tensor, y: Tensor) -> Tensor:
        edges.values().mul_(0.9)
        near = edges @ x  # Nothing here is hollow, but the values are still to be written.
        return b.update(b.loss(near, y))

    return b.world(step, edges)


@case("sparse")
def a_graph_that_changes_behind_its_use() -> Any:
    b, edges = Bench(), graph().to_sparse_csr()

    def step(x: Tensor, y: Tensor) -> Tensor:
        scale = edges.values().square().sum()  # Waits, while the graph changes at once.
        edges.mul_(0.9)
        return b.update(b.loss(x, y) * scale)

    return b.world(step, edges)


@case("sparse")
def a_gradient_kept_from_call_to_call() -> Any:
    words = nn.Embedding(10, 8, sparse=True)
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        words.weight.grad = None
        loss = b.update(F.cross_entropy(b.model(words(y)), y))
        kept = words.weight.grad.coalesce()
        with torch.no_grad():
            words.weight.sub_(kept, alpha=0.1)
            if b.log:
                words.weight.sub_(b.log[-1], alpha=0.05)
        b.log[:] = [kept]
        return loss

    return b.world(step, words)


@case("sparse")
def a_table_beside_a_bag() -> Any:
    """Where the preview ends within the backward pass, PyTorch's queue keeps what was to come."""
    tables = nn.ModuleDict(
        {"one": nn.Embedding(20, 4, sparse=True), "bag": nn.EmbeddingBag(20, 4, sparse=True)}
    )
    b = Bench(tables, make=lambda parameters: torch.optim.SparseAdam(list(parameters), 0.01))
    starts = torch.tensor([0, 3, 5])

    def step(words: Tensor, y: Tensor) -> Tensor:
        mean = tables["one"](words).mean(0).expand(3, -1)
        return b.update(F.cross_entropy(mean + tables["bag"](words, starts), y))

    g = torch.Generator().manual_seed(3)
    calls = [(torch.randint(20, (9,), generator=g), torch.arange(3)) for _ in range(5)]
    return b.world(step, calls=calls)
