"""Recommendation, and networks on graphs."""

import torch
from torch import nn
from torch_geometric import nn as geometric


def _graph(nodes=500, edges=4000, width=64):
    torch.manual_seed(0)
    return torch.randn(nodes, width), torch.randint(0, nodes, (2, edges))


class Net(nn.Module):
    """Two layers on a graph."""

    def __init__(self, one, two):
        super().__init__()
        self.one, self.two = one, two

    def forward(self, x, edges):
        return self.two(torch.relu(self.one(x, edges)), edges)


def gcn():
    x, edges = _graph()
    return Net(geometric.GCNConv(64, 64), geometric.GCNConv(64, 16)).eval(), (x, edges)


def sage():
    x, edges = _graph()
    return Net(geometric.SAGEConv(64, 64), geometric.SAGEConv(64, 16)).eval(), (x, edges)


def gat():
    x, edges = _graph()
    return Net(geometric.GATConv(64, 16, heads=4), geometric.GATConv(64, 16)).eval(), (x, edges)


def gin():
    x, edges = _graph()
    one, two = (nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, out)) for out in (64, 16))
    return Net(geometric.GINConv(one), geometric.GINConv(two)).eval(), (x, edges)


class DLRM(nn.Module):
    """Dense features and embeddings, their products in pairs, and a head."""

    def __init__(self, tables=8, rows=2000, width=32):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("place", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, sparse):
        low = self.bottom(dense)
        all_ = torch.stack([low, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], 1)
        products = all_ @ all_.transpose(1, 2)
        return torch.sigmoid(self.top(torch.cat([products[:, self.place[0], self.place[1]], low], 1)))


def dlrm():
    torch.manual_seed(0)
    return DLRM().eval(), (torch.randn(256, 13), torch.randint(0, 2000, (256, 8)))


class TwoTowers(nn.Module):
    """Users and items, each through layers of their own, and their products."""

    def __init__(self, width=128):
        super().__init__()
        self.user, self.item = (
            nn.Sequential(nn.Linear(200, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, width))
            for _ in range(2)
        )

    def forward(self, user, item):
        one, two = (
            nn.functional.normalize(tower(x), dim=-1) for tower, x in ((self.user, user), (self.item, item))
        )
        return one @ two.t()


def two_towers():
    torch.manual_seed(0)
    return TwoTowers().eval(), (torch.randn(128, 200), torch.randn(512, 200))
