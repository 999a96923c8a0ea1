"""For Ray: data sets of positions that many actors evaluate, solve and score, and self-play by actors.

    positions = ray.data.read_parquet("s3://bucket/positions")
    evald.ray.evaluate(positions, "default", actors=8).write_parquet("s3://bucket/answers")
    evald.ray.solve(positions, actors=8).write_parquet("s3://bucket/scores")

    with evald.ray.SelfPlay(network=module, actors=8, visits=100) as play:
        for game in play.games(10_000): ...
        play.network = better
        play.write(10_000, "s3://bucket/games")

A row is a position as in evald.Evaluator.__call__: the column `moves`, or bitboards in `own` and
`all` or in `own_lo`, `own_hi`, `all_lo` and `all_hi`.
"""
from __future__ import annotations

import itertools
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any, Iterator, Literal, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.fs
import ray
import ray.data
import ray.util

from . import _arguments as arguments
from ._evaluator import COLUMNS, ERRORS, Evaluator, from_columns, rows_of, sorted_out
from ._library import EvaldError
from ._positions import Board, rules_text
from . import _records
from ._records import Records, write
from ._score import labels
from ._search import NO_MOVE, AnyNetwork, Game, asked, search, selfplay, solve as solved

if TYPE_CHECKING:
    from ._search import GameOptions, SearchOptions, Unpack

__all__ = ["SelfPlay", "evaluate", "read", "score", "solve"]

Errors = Literal["raise", "column"]


def evaluate(dataset: ray.data.Dataset, model: str | os.PathLike[str] | None = None, rules: str | Board = "7x6x4", *, errors: Errors = "column", actors: int = 1,
             batch_size: int = 4096, cpus: float = 1, gpus: float = 0, **evaluator: Any) -> ray.data.Dataset:
    """The data set with the columns `win`, `draw`, `loss`, `policy` and `source`, and `error` unless
    `errors` is "raise" (see evald.Evaluator.__call__).

    `actors` is the number of processes that evaluate, each with `cpus` processors and `gpus` GPUs.
    `model`, `rules` and further arguments are those of evald.Evaluator.
    """
    return _mapped(dataset, Evaluator, actors, batch_size, cpus, gpus, model=model, rules=rules_text(rules), errors=errors, **evaluator)


def solve(dataset: ray.data.Dataset, rules: str | Board = "7x6x4", *, results: bool = False, nodes: int | None = None, errors: Errors = "column", actors: int = 1,
          batch_size: int = 256, cpus: float = 1) -> ray.data.Dataset:
    """The data set with the column `scores` [A], the exact score of each action (evald.solve), or
    with `results` its exact result (evald.labels), and with `error` unless `errors` is "raise". With `nodes` all
    actions of a position that takes more nodes have NO_MOVE, and so have wrong rows and positions whose
    game is over."""
    return _mapped(dataset, _Solver, actors, batch_size, cpus, 0, rules=rules_text(rules), results=results, nodes=nodes, errors=errors)


def score(dataset: ray.data.Dataset, network: AnyNetwork = None, rules: str | Board = "7x6x4", *, visits: int = 0, actors: int = 1, batch_size: int = 256, cpus: float = 1,
          gpus: float = 0, **options: Unpack[SearchOptions]) -> ray.data.Dataset:
    """The data set, whose column `scores` has the exact score of each action, with the columns
    `good`, `perfect` and `regret`: as in evald.Scores, of the likeliest action of `network`, or with `visits` of
    a search, in that row. Equally likely actions share the credit. A row of NO_MOVE alone has NaN.

        scored.mean(["good", "perfect", "regret"])

    `options` are those of evald.search. A function as `network` must be picklable, and needs `visits`.
    """
    of = asked(network)
    if callable(of) and not isinstance(of, Evaluator) and visits == 0:
        raise arguments.wrong("visits", visits, "2 or more with a function as the network")
    return _mapped(dataset, _Scorer, actors, batch_size, cpus, gpus, network=of, rules=rules_text(rules), visits=arguments.count("visits", visits), options=options)


def _mapped(dataset: ray.data.Dataset, actor: type, actors: int, batch_size: int, cpus: float, gpus: float, **given: Any) -> ray.data.Dataset:
    mapped: ray.data.Dataset = dataset.map_batches(
        actor, fn_constructor_kwargs=given, batch_size=batch_size, num_cpus=cpus, num_gpus=gpus, compute=ray.data.ActorPoolStrategy(size=actors)
    )
    return mapped


class _Solver:
    def __init__(self, rules: str, results: bool, nodes: int | None, errors: Errors) -> None:
        self.rules, self.results, self.nodes = rules, results, nodes
        self.errors = arguments.text("errors", errors, ERRORS)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        positions, wrong = sorted_out(batch, self.rules) if self.errors == "column" else (from_columns(batch, self.rules), {})
        going = positions.results() == 2
        found = np.full((len(positions), positions.board.actions), NO_MOVE, np.int32)
        left = positions[going]
        if len(left):
            found[going] = labels(left, nodes=self.nodes, threads=1).moves if self.results else solved(left, nodes=self.nodes, threads=1)
        right, error = rows_of(len(positions), wrong)
        scores = np.full((len(right), found.shape[1]), NO_MOVE, np.int32)
        scores[right] = found
        return {**batch, "scores": scores, **({"error": error} if self.errors == "column" else {})}


class _Scorer:
    def __init__(self, network: Any, rules: str, visits: int, options: Mapping[str, Any]) -> None:
        self.network = Evaluator(network) if network is None or isinstance(network, str) else network
        self.rules, self.visits, self.options = rules, visits, options

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        if "scores" not in batch:
            raise KeyError(f"a batch has the columns {sorted(batch)}, and needs scores, the exact score of each action")
        scores = np.stack([np.asarray(row, np.int32) for row in batch["scores"]])
        known = (scores != NO_MOVE).any(1)
        positions = from_columns({name: np.asarray(batch[name])[known] for name in COLUMNS if name in batch}, self.rules)
        if self.visits == 0:
            policy = self.network.evaluate(positions).policy
        else:
            policy = search(positions, network=self.network, visits=self.visits, **self.options).policy
        measures = np.full((3, len(scores)), np.nan, np.float32)
        measures[:, known] = _measured(policy, scores[known])
        return {**batch, "good": measures[0], "perfect": measures[1], "regret": measures[2]}


def _measured(policy: npt.NDArray[np.float32], scores: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """[3,N] whether the likeliest actions keep the result, whether they have the best score, and what they give away."""
    chosen = policy == policy.max(1, keepdims=True)
    share = chosen / chosen.sum(1, keepdims=True)
    best = scores.max(1, keepdims=True)
    return np.stack([(share * of).sum(1) for of in (np.sign(scores) == np.sign(best), scores == best, best - scores)])


class SelfPlay:
    """Self-play of a network by actors, which play the same games as evald.selfplay with the same
    `seed` on one machine.

    `actors` processes play, each with `cpus` processors and `gpus` GPUs. An actor that is lost is
    started again by Ray, and plays again the up to `chunk` games that were not over: no game is lost
    or played twice. `network` is as in evald.selfplay; a function or module must be picklable, and
    travels once to each machine, by Ray's object store. It may be changed between calls. `rules`
    and `options` are those of evald.selfplay.

    It is a context manager; `close` ends the actors.
    """

    def __init__(self, rules: str | Board = "7x6x4", *, network: AnyNetwork = None, actors: int = 1, cpus: float = 1, gpus: float = 0, chunk: int = 256,
                 **options: Unpack[GameOptions]) -> None:
        for name in ("progress", "order"):
            if name in options:
                raise EvaldError(f"{name} is not for self-play by actors, whose games come in the order of their numbers: leave it out")
        self.network = network
        self.chunk = arguments.count("chunk", chunk, 1)
        self._network: tuple[AnyNetwork, Any] | None = None  # with its copy in the object store
        actor = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)(_Player)
        self._actors = [actor.remote(rules_text(rules), options) for _ in range(arguments.count("actors", actors, 1))]

    def games(self, games: int, first: int = 0) -> Iterator[Game]:
        """The `games` games from number `first` on, in the order of their numbers."""
        for played in self._each("play", games, first, self.chunk):
            yield from played

    def write(self, games: int, to: str | os.PathLike[str], first: int = 0, *, per_file: int = 1000) -> list[str]:
        """Plays `games` games and writes their records (evald.write) into the folder `to`, a path or a
        URI of an Arrow file system such as s3://bucket/games: `per_file` games in each file, whose name
        has their numbers. Files that are there stay as they are, so an interrupted call can be
        repeated. The result is the names of all the files, which evald.read and `evald train` read."""
        return list(self._each("write", games, first, arguments.count("per_file", per_file, 1), _uri("to", to)))

    def _each(self, call: str, games: int, first: int, size: int, *more: Any) -> Iterator[Any]:
        """The results of calls for up to `size` games each, in order. Each actor has a call, and another one waits."""
        end = arguments.count("first", first) + arguments.count("games", games)
        if self._network is None or self._network[0] is not self.network:
            self._network = self.network, ray.put(asked(self.network))
        network = self._network[1]
        pool = ray.util.ActorPool(self._actors)
        waiting = iter(range(first, end, size))

        def ask(most: int) -> None:
            for begin in itertools.islice(waiting, most):
                pool.submit(lambda actor, begin: getattr(actor, call).remote(begin, min(size, end - begin), network, *more), begin)

        ask(2 * len(self._actors))
        while pool.has_next():
            result = pool.get_next()
            ask(1)
            yield result

    def close(self) -> None:
        """Ends the actors."""
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []

    def __enter__(self) -> SelfPlay:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read(folder: str | os.PathLike[str], names: Sequence[str] | None = None, rules: str | Board | None = None) -> Records:
    """The records of all files of SelfPlay.write in `folder`, a path or a URI, or of those with these
    `names`. `rules` are as in evald.read."""
    files, where = pyarrow.fs.FileSystem.from_uri(_uri("folder", folder))
    found = [one.base_name for one in files.get_file_info(pyarrow.fs.FileSelector(where)) if one.base_name.startswith("games-")] if names is None else names
    with tempfile.TemporaryDirectory() as here:
        for name in found:
            pyarrow.fs.copy_files(f"{where}/{name}", f"{here}/{name}", source_filesystem=files, destination_filesystem=pyarrow.fs.LocalFileSystem())
        return _records.read([f"{here}/{name}" for name in sorted(found)], rules)


def _uri(name: str, of: str | os.PathLike[str]) -> str:
    text = arguments.path(name, of)
    return text if "://" in text else os.path.abspath(text)


class _Player:
    """An actor of SelfPlay."""

    def __init__(self, rules: str, options: Mapping[str, Any]) -> None:
        self.rules, self.options = rules, options

    def pid(self) -> int:
        return os.getpid()

    def play(self, first: int, games: int, network: Any) -> Sequence[Game]:
        return list(selfplay(games, self.rules, network=network, first=first, order="number", **self.options))

    def write(self, first: int, games: int, network: Any, to: str) -> str:
        name = f"games-{first:06d}-{first + games - 1:06d}.parquet"
        files, folder = pyarrow.fs.FileSystem.from_uri(to)
        path = f"{folder}/{name}"
        if files.get_file_info(path).type != pyarrow.fs.FileType.NotFound:
            return name
        files.create_dir(folder)
        played = self.play(first, games, network)
        if isinstance(files, pyarrow.fs.LocalFileSystem):
            write(played, path)  # appears when it is complete
            return name
        with tempfile.TemporaryDirectory() as here:
            write(played, pathlib.Path(here, name))
            pyarrow.fs.copy_files(here, folder, destination_filesystem=files)
        return name
