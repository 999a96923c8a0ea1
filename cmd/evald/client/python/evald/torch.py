"""For PyTorch: self-play as a data set, and modules as networks of searches.

    network = evald.torch.ModuleNetwork(module)
    data = evald.torch.SelfPlay(1000, network=network, visits=200)
    for planes, policy, value in DataLoader(data, batch_size=256, num_workers=2, multiprocessing_context="spawn"): ...

Workers must be spawned: evald does not work in a child that was forked from a process that had used evald.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from . import _arguments as arguments
from ._positions import Board, Positions, rules_text
from ._search import AnyNetwork, asked, selfplay

if TYPE_CHECKING:
    from ._search import GameOptions, Unpack

__all__ = ["ModuleNetwork", "SelfPlay"]

Row = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class SelfPlay(IterableDataset[Row]):
    """The positions of `games` games of `rules` that a `network` plays against itself, as rows of
    planes [5,H,W], policy [A] and value [], all float32.

    The policy is that of the search (evald.Game); positions without a full search are left out,
    because they have no policy. The value is the game's result for the side to move. The arguments,
    with `options`, are those of evald.selfplay. The workers of a DataLoader divide the games among
    them, and together play the same games as one process. For workers the arguments must be
    picklable; an Evaluator and a ModuleNetwork are. Each pass plays the same games again; for new
    games, increase `first` by `games` between passes.
    """

    def __init__(self, games: int, rules: str | Board = "7x6x4", *, network: AnyNetwork = None, first: int = 0, **options: Unpack[GameOptions]) -> None:
        super().__init__()
        self.games, self.first = arguments.count("games", games), arguments.count("first", first)
        self.rules, self.network, self.options = rules_text(rules), asked(network), options

    def __iter__(self) -> Iterator[Row]:
        start, end = 0, self.games
        worker = get_worker_info()
        if worker is not None:
            start, end = (self.games * k // worker.num_workers for k in (worker.id, worker.id + 1))
        for game in selfplay(end - start, self.rules, network=self.network, first=self.first + start, **self.options):
            searched = game.visits.sum(1) > 0
            planes = torch.from_numpy(game.positions[searched].planes())
            policy = torch.from_numpy(game.policy[searched])
            value = torch.from_numpy(game.z[searched].astype(np.float32))
            yield from zip(planes, policy, value)


class ModuleNetwork:
    """A module as a network (see evald.Network) for evald.search and evald.selfplay.

    The `module` is called with planes [N,5,H,W] (Positions.planes), float32, on `device` or the
    device of its parameters. It returns logits of the policy [N,A], and either values from -1 to 1,
    [N] or [N,1], or logits of win, draw and loss [N,3]. It is called without gradients and in
    evaluation mode; afterwards its previous mode is restored.
    """

    def __init__(self, module: torch.nn.Module, device: torch.device | str | None = None) -> None:
        if not isinstance(module, torch.nn.Module):
            raise arguments.wrong("module", module, "a torch.nn.Module")
        self.module = module if device is None else module.to(device)
        self.device = device

    def __call__(self, positions: Positions) -> tuple[torch.Tensor, torch.Tensor]:
        device = self.device
        if device is None:
            parameter = next(self.module.parameters(), None)
            device = "cpu" if parameter is None else parameter.device
        planes = torch.from_numpy(positions.planes()).to(device)
        training = self.module.training
        self.module.eval()
        try:
            with torch.no_grad():
                logits, value = self.module(planes)
                policy = logits.float().softmax(1)
                if value.ndim == 2 and value.shape[1] == 3:
                    value = value.float().softmax(1)
        finally:
            self.module.train(training)
        return policy, value
