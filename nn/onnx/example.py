"""A Kaggle ConnectX agent that uses a network written by `evald model export NAME -o model.onnx`:

    pip install onnxruntime numpy
    python example.py model.onnx        # evaluates the empty board
"""
import sys

import numpy
import onnxruntime


def planes(board, mark, rows, columns, inarow, gravity=True):
    """float32 [1,5,rows,columns] of Kaggle's flat board, as Go's package net defines them."""
    cells = numpy.array(board).reshape(rows, columns)
    empty = cells == 0
    below = numpy.vstack([cells[1:], numpy.ones((1, columns), int)])  # stones rest on the floor too
    plies = numpy.count_nonzero(cells)
    from_bottom = numpy.arange(rows)[::-1, None] + numpy.zeros((1, columns), int)
    return numpy.stack([
        cells == mark,
        cells == 3 - mark,
        empty & (below != 0) if gravity else empty,
        (from_bottom + cells.size - rows + plies) % 2 == 0,
        numpy.full(cells.shape, inarow / 4),
    ]).astype(numpy.float32)[None]


session = None


def agent(observation, configuration):
    global session
    session = session or onnxruntime.InferenceSession("model.onnx")
    policy, = session.run(["policy"], {"planes": planes(observation.board, observation.mark, configuration.rows,
                                                        configuration.columns, configuration.inarow)})
    return int(policy[0].argmax())


if __name__ == "__main__":
    session = onnxruntime.InferenceSession(sys.argv[1])
    outcome, policy = session.run(["outcome", "policy"], {"planes": planes([0] * 42, 1, 6, 7, 4)})
    print("win, draw, loss:", outcome[0].round(3), "policy:", policy[0].round(3))
