"""The public names of the package, and an example of each public class, for tests that find their cases in the program itself."""
from __future__ import annotations

import functools
import importlib
import inspect
import os
import pkgutil
import subprocess
import tempfile
from types import ModuleType
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np

import evald


def modules() -> Iterator[ModuleType]:
    """evald and its public modules, without those whose framework is missing."""
    yield evald
    for module in pkgutil.iter_modules(evald.__path__):
        if module.name.startswith("_") or module.name == "libevald":  # the library of pip install -e
            continue
        try:
            yield importlib.import_module("evald." + module.name)
        except ImportError as error:
            if (error.name or "evald").partition(".")[0] == "evald":
                raise


def public() -> dict[str, Any]:
    """Every public object by its name, such as torch.SelfPlay."""
    found = {}
    for module in modules():
        if not hasattr(module, "__all__"):
            raise AssertionError(f"{module.__name__} has no __all__, which lists its public names")
        for name in module.__all__:
            found[(module.__name__ + "." + name).removeprefix("evald.")] = getattr(module, name)
    return found


def classes() -> dict[str, type]:
    """The public classes but errors and protocols."""
    found = {name: of for name, of in public().items() if inspect.isclass(of)}
    return {name: of for name, of in found.items() if not issubclass(of, Exception) and not getattr(of, "_is_protocol", False)}


def values() -> dict[str, type]:
    """The classes whose objects are values, which pickles and copies keep."""
    return {name: of for name, of in classes().items() if name != "Forest"}


def callables() -> dict[str, inspect.Signature]:
    """Every public function, class and method that has arguments, with their signature."""
    found = {}
    for name, of in public().items():
        if inspect.isfunction(of):
            found[name] = inspect.signature(of)
    for name, of in classes().items():
        found[name] = inspect.signature(of)
        for member, method in inspect.getmembers(of, callable):
            if not member.startswith("_") and getattr(method, "__module__", "").startswith("evald"):
                bound = inspect.signature(method)
                found[f"{name}.{member}"] = bound if inspect.ismethod(method) else bound.replace(parameters=list(bound.parameters.values())[1:])
    return {name: signature for name, signature in found.items() if signature.parameters}


class Example(NamedTuple):
    """An object of a public class."""

    make: Callable[[], Any]
    content: Callable[[Any], Any]  # what the object answers, as lists and numbers; it may use the object up
    change: Callable[[Any], Any] = lambda of: None  # changes the object in place


def example(name: str) -> Example:
    """The example of a public class."""
    if name not in EXAMPLES:
        raise AssertionError(f"the public class evald.{name} has no example: add one to EXAMPLES in tests/public.py")
    return EXAMPLES[name]


def plain(of: Any) -> Any:
    """A copy of a result as lists, numbers and text."""
    if isinstance(of, evald.Positions):
        return [of.board.rules, of.words.tolist()]
    if isinstance(of, evald.Board):
        return [of.rules, of.columns, of.rows, of.in_a_row, of.actions, of.cells]
    if isinstance(of, np.ndarray):
        return [str(of.dtype), [plain(one) for one in of] if of.dtype == object else of.tolist()]
    if isinstance(of, dict):
        return {key: plain(value) for key, value in of.items()}
    if isinstance(of, (list, tuple)):
        return [plain(one) for one in of]
    if isinstance(of, np.generic):
        return of.item()
    return of


def rows(of: Any) -> Any:
    """What an object with positions and arrays says."""
    names = [name for name in dir(of) if not name.startswith("_") and not callable(getattr(of, name))]
    return [plain(getattr(of, name)) for name in names] + [plain(of.positions.legal()), repr(of), len(of)]


def zero(of: Any) -> None:
    """Sets all arrays of an object to 0."""
    of.positions.words[:] = 0
    for name in ("wdl", "policy", "visits", "q", "actions"):
        if isinstance(getattr(type(of), name, None), property):
            continue
        if isinstance(array := getattr(of, name, None), np.ndarray):
            array[:] = 0


def uniform(p: evald.Positions) -> Any:
    return np.ones((len(p), p.board.actions)), np.zeros(len(p))


def lowest(p: evald.Positions) -> Any:
    return p.legal().argmax(1)


def untimed(m: evald.Match) -> Any:
    """A match without the times of moves."""
    return plain([m.names, m.games, m.wins, m.draws, m.elo, m.interval, m.openings])


@functools.cache
def recorded() -> Any:
    """A folder with records, which is removed when Python ends."""
    folder = tempfile.TemporaryDirectory()
    program = os.environ.get("EVALD_PROGRAM") or os.environ["EVALD_LIBRARY"]
    flags = ["--backend", "bitsquares", "--games", "2", "--visits", "4", "--full-share", "0.5", "--rules", "5x4x3", "-o", folder.name]
    subprocess.run([program, "selfplay", *flags], check=True, capture_output=True)
    return folder


def records() -> evald.Records:
    return evald.read(os.path.join(recorded().name, "*.parquet"))


def environment() -> Any:
    games = evald.Environment(2, "5x4x3", reset=False)
    games.step([0, 1])
    return games


def vector() -> Any:
    games = evald.gymnasium.VectorConnectX(3, "5x4x3", autoreset_mode="SameStep")
    games.reset(seed=3)
    games.step([1, 2, 3])
    return games


def single() -> Any:
    game = evald.gymnasium.ConnectX("5x4x3", render_mode="ansi")
    game.reset(seed=3)
    game.step(1)
    return game


def play(games: Any, n: int = 6) -> Any:
    """Plays on, and returns all that is observed."""
    seen = []
    for i in range(n):
        seen.append(plain(games.step(np.arange(i, i + games.num_envs) % 5 if hasattr(games, "num_envs") else i % 5)))
        seen.append(plain(games.positions()))
        if not hasattr(games, "num_envs") and seen[-2][2]:
            games.reset()
    return seen


def steps(games: evald.Environment) -> Any:
    return [plain(part) for a in range(5) for part in (games.step([a, a]), games.positions, games.legal(), games.observation())]


def two_agents() -> Any:
    game = evald.pettingzoo.raw_env("5x4x3")
    game.reset()
    game.step(2)
    return game


def agents_play(game: Any) -> Any:
    seen = []
    for a in (0, 0, 1):
        game.step(a)
        seen.append(plain([game.observe(agent) for agent in game.possible_agents]) + [game.agent_selection, dict(game.rewards), dict(game.terminations)])
    return seen


def openspiel_state() -> Any:
    import pyspiel

    state = pyspiel.load_game("connect_four(rows=4,columns=5)").new_initial_state()
    state.apply_action(2)
    return state


def of_model(model: Any) -> Any:
    import jax.numpy as jnp

    return plain([np.asarray(part) for part in model.root(jnp.zeros((2, 4, 5, 2), bool))])


# An example of each public class.
EXAMPLES: dict[str, Example] = {
    "Board": Example(lambda: evald.board("7x6x5"), plain),
    "Positions": Example(
        lambda: evald.Positions(["1727374", "33"], "7x6x5"), lambda p: plain([p, p.results(), p.cells(), p.planes(), p.legal(), p.text(), p.play([0, 1])]),
        lambda p: p.words.__setitem__(slice(None), 0),
    ),
    "Answers": Example(lambda: evald.Evaluator(backend="bitsquares").evaluate(["12", "33"], "5x4x4"), rows, zero),
    "Searched": Example(lambda: evald.search(["12", "33"], "5x4x4", network=uniform, visits=8), rows, zero),
    "Forest": Example(lambda: evald.Forest(["12", "33"], "5x4x4", network=uniform), plain, lambda f: [f.run(5), f.advance([0, -1])]),
    "Tree": Example(
        lambda: evald.search(["12", "33"], "5x4x4", network=uniform, visits=8, tree=True).tree,
        lambda t: [*(plain(getattr(t, name)) for name in type(t).__slots__), plain(t.qvalues), repr(t)], lambda t: t.children_visits.fill(0),
    ),
    "Game": Example(lambda: next(evald.selfplay(1, "5x4x4", network=uniform, visits=4)), rows, zero),
    "Records": Example(records, rows, zero),
    "Match": Example(lambda: evald.match({"a": uniform, "b": "random"}, "4x4x3", games=2, visits=4), lambda m: [untimed(m), repr(m), len(m)], lambda m: m.score.fill(0)),
    "Labels": Example(lambda: evald.labels(["12", "33"], "5x4x4"), rows, lambda of: [zero(of), of.moves.fill(0), of.result.fill(0)]),
    "Scores": Example(
        lambda: evald.score(uniform, evald.labels(["12", "33"], "5x4x4"), visits=(0, 4)), lambda of: [plain(of.report), plain(of.good), repr(of), len(of)],
        lambda of: of.good.fill(0),
    ),
    "Environment": Example(environment, steps, lambda games: games.step([3, 3])),
    "Evaluator": Example(
        lambda: evald.Evaluator(backend="bitsquares", rules="5x4x4"), lambda e: [e.rules, plain(e.evaluate("12").wdl), repr(e)], lambda e: e.close()
    ),
    "kaggle.Agent": Example(
        lambda: evald.kaggle.Agent(0.02, network="default-fast"),
        lambda a: [a.seconds, a({"board": [0] * 35 + [1, 1, 1, 0, 2, 2, 2], "mark": 1}, {"columns": 7, "rows": 6, "inarow": 4, "actTimeout": 2})],
    ),
    "gymnasium.VectorConnectX": Example(vector, play, lambda games: games.step([0, 0, 0])),
    "gymnasium.ConnectX": Example(single, lambda game: [game.render(), play(game)], lambda game: game.step(0)),
    "pettingzoo.raw_env": Example(two_agents, agents_play, lambda game: game.step(3)),
    "openspiel.Evaluator": Example(
        lambda: evald.openspiel.Evaluator(evald.Evaluator(backend="bitsquares")), lambda e: plain([e.evaluate(openspiel_state()), e.prior(openspiel_state())])
    ),
    "openspiel.Bot": Example(lambda: evald.openspiel.Bot(uniform, visits=8, seed=2), lambda bot: plain(bot.step_with_policy(openspiel_state()))),
    "mctx.Model": Example(lambda: evald.mctx.Model("5x4x4", evald.Evaluator(backend="bitsquares")), of_model),
    "torch.SelfPlay": Example(
        lambda: evald.torch.SelfPlay(1, "5x4x4", network=evald.Evaluator(backend="bitsquares"), visits=4), lambda data: [[part.tolist() for part in row] for row in data]
    ),
    "torch.ModuleNetwork": Example(lambda: evald.torch.ModuleNetwork(_module()), lambda f: [part.tolist() for part in f(evald.Positions("4"))]),
}


def _module() -> Any:
    import torch

    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(5 * 42, 8), Heads())


try:
    import torch as _torch

    class Heads(_torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:, :7], x[:, 7].tanh()
except ImportError:
    pass
