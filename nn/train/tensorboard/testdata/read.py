"""Prints every point of every curve that TensorBoard finds in a folder."""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
for tag in events.Tags()["scalars"]:
    for e in events.Scalars(tag):
        print(tag, e.step, e.value, f"{e.wall_time:.3f}")
