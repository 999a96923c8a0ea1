import contextlib
import io
import json
import os
import time
import unittest

import numpy as np
from reference import needs, random_games

needs("kaggle_environments")

import evald  # noqa: E402
from evald.kaggle import Agent, agent  # noqa: E402
from kaggle_environments import make  # noqa: E402

QUICK = Agent(0.1)
SOAK = bool(os.environ.get("EVALD_SOAK"))

LATE = 20  # seconds: far more than any agent here may take, so that a busy machine fails no test, and one that never stops does


class Kaggle(unittest.TestCase):
    def test_wins_on_any_board_as_either_player(self) -> None:
        for i, (columns, rows, inarow) in enumerate(((7, 6, 4), (6, 7, 4), (9, 7, 5))):
            for k, other in enumerate(("random", "negamax")):
                if not SOAK and k != i % 2:  # negamax plays slowly
                    continue
                for first in (True, False) if SOAK else (i == 1,):
                    environment = make("connectx", {"columns": columns, "rows": rows, "inarow": inarow, "actTimeout": 60}, debug=True)
                    environment.run([QUICK, other] if first else [other, QUICK])
                    states = environment.state
                    self.assertEqual([state["status"] for state in states], ["DONE", "DONE"])
                    with self.subTest(columns=columns, other=other, first=first):
                        self.assertGreaterEqual(states[0 if first else 1]["reward"], 1 if other == "random" else 0)

    def test_one_line_within_its_time(self) -> None:
        environment = make("connectx", debug=True)
        observation = environment.reset()[0]["observation"]
        agent(observation, environment.configuration)  # loads
        for game in random_games(2, 1):
            seen = {"board": [cell for row in game.cells for cell in row], "mark": game.player()}
            start = time.monotonic()
            self.assertIn(agent(seen, environment.configuration), game.legal())
            self.assertLess(time.monotonic() - start, LATE)

    def test_large_boards(self) -> None:
        for columns, rows in ((13, 12), (7, 30)):  # of more than 128 bits
            environment = make("connectx", {"columns": columns, "rows": rows, "inarow": 4}, debug=True)
            with contextlib.redirect_stderr(io.StringIO()):
                environment.run([QUICK, "random"])
            self.assertEqual([state["status"] for state in environment.state], ["DONE", "DONE"])
            self.assertEqual(environment.state[0]["reward"], 1)

    def test_more_time_means_more_visits(self) -> None:
        def count(seconds):
            rows = 0

            def network(positions):
                nonlocal rows
                rows += len(positions)
                return np.ones((len(positions), positions.board.actions)), np.zeros(len(positions))

            Agent(seconds, network=network)({"board": [0] * 42, "mark": 1}, {"columns": 7, "rows": 6, "inarow": 4})
            return rows

        self.assertGreater(count(1), 1.5 * count(0.1))

    def test_open_spiel(self) -> None:
        def first_legal(observation, configuration):
            text = observation.get("observationString")
            if text is None:
                return {"submission": -1}
            return {"submission": [column.count(".") > 0 for column in zip(*json.loads(text)["board"])].index(True)}

        for first in (True, False):
            try:
                environment = make("open_spiel_connect_four", debug=True)
            except Exception as error:
                self.skipTest(f"open_spiel_connect_four is missing: {error}")
            environment.run([QUICK, first_legal] if first else [first_legal, QUICK])
            self.assertEqual([state["status"] for state in environment.state], ["DONE", "DONE"])
            self.assertEqual(environment.state[0 if first else 1]["reward"], 1)

    def test_wrong_observations(self) -> None:
        with self.assertRaisesRegex(evald.EvaldError, "mark is 2"):
            agent({"board": [0] * 42, "mark": 2}, {"columns": 7, "rows": 6, "inarow": 4, "actTimeout": 2})


if __name__ == "__main__":
    unittest.main()
