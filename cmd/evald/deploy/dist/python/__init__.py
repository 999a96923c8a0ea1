"""The program evald, which evaluates ConnectX positions in large batches. `python -m evald` starts it."""
