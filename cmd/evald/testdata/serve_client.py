"""Asks a running evald serve with NVIDIA's client, over gRPC and HTTP, and prints what it answers.

    python serve_client.py HTTP_ADDRESS GRPC_ADDRESS DESCRIPTORS

DESCRIPTORS is the protocol as evald has it, a FileDescriptorSet, which is compared with the client's own.
"""
import queue
import sys

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2, service_pb2
from tritonclient.utils import InferenceServerException

http_address, grpc_address, descriptors = sys.argv[1:]

# The position after 44554 on 7x6: own and all stones, bit 7 * column + row.
OWN, ALL = 1 << 22 | 1 << 29, 1 << 21 | 1 << 22 | 1 << 23 | 1 << 28 | 1 << 29
MOVES = np.array(["44554", "-"], dtype=object)
BITBOARDS = np.array([[OWN, ALL], [0, 0]], dtype=np.uint64)


def planes():
    p = np.zeros((2, 2, 6, 7), dtype=np.float32)
    for bit in range(49):
        column, row = bit // 7, 5 - bit % 7
        if row >= 0:
            p[0, 0, row, column] = OWN >> bit & 1
            p[0, 1, row, column] = (ALL & ~OWN) >> bit & 1
    return p


def tensor(module, name, datatype, values, shape=None, **how):
    t = module.InferInput(name, list(shape or values.shape), datatype)
    t.set_data_from_numpy(values.reshape(shape) if shape else values, **how)
    return t


def show(what, result, names=("wdl", "policy", "gameover", "source")):
    print(what)
    for name in names:
        values = result.as_numpy(name)
        if values is None:
            print(f"  {name}: none")
            continue
        flat = [v.decode() if isinstance(v, bytes) else f"{float(v):.4f}" for v in values.flatten()]
        print(f"  {name} {values.dtype} {list(values.shape)}: {' '.join(flat)}")


def infer(module, client):
    print(f"== {module.__name__}")
    print("live, ready, model ready:", client.is_server_live(), client.is_server_ready(), client.is_model_ready("bitsquares"))
    three = {
        "bitboards": lambda **how: tensor(module, "bitboards", "UINT64", BITBOARDS, **how),
        "planes": lambda **how: tensor(module, "planes", "FP32", planes(), **how),
        "moves": lambda **how: tensor(module, "moves", "BYTES", MOVES, **how),
    }
    first = None
    for name, make in three.items():
        ways = [{}] if module is grpc else [{}, {"binary_data": False}]
        for how in ways:
            result = client.infer("bitsquares", [make(**how)], request_id="one")
            got = {o: result.as_numpy(o) for o in ("wdl", "value", "policy", "gameover", "source")}
            if first is None:
                first = got
                show(name, result, first.keys())
            for o in first:
                assert np.array_equal(got[o], first[o]), (name, how, o, got[o], first[o])
        print(f"{name}: as before")
    wanted = [module.InferRequestedOutput("wdl")]
    if module is http:
        wanted = [http.InferRequestedOutput("wdl", binary_data=False), http.InferRequestedOutput("policy", binary_data=True)]
    show("outputs by name", client.infer("bitsquares", [three["moves"]()], outputs=wanted), ("wdl", "policy", "source"))
    wide = tensor(module, "moves", "BYTES", np.array(["12x9x5:66"], dtype=object))
    print("a wide board:", list(client.infer("bitsquares", [wide], parameters={"board": "12x9x5"}).as_numpy("policy").shape))
    result = client.infer("search", [three["moves"]()], parameters={"visits": 200}, priority=1, timeout=20_000_000)
    show("search", result, ("visits", "q", "source"))
    for algorithm in ("gzip", "deflate"):
        if module is grpc:
            if algorithm == "deflate":
                continue  # the server has none over gRPC
            result = client.infer("bitsquares", [three["bitboards"]()], compression_algorithm=algorithm)
        else:
            result = client.infer("bitsquares", [three["bitboards"]()], request_compression_algorithm=algorithm)
        assert np.array_equal(result.as_numpy("wdl"), first["wdl"]), algorithm
        print(f"{algorithm}: as before")
    pending = []
    for _ in range(8):
        if module is http:
            pending.append(client.async_infer("bitsquares", [three["bitboards"]()]).get_result)
        else:
            done = queue.Queue()
            client.async_infer("bitsquares", [three["bitboards"]()], lambda result, error, done=done: done.put((result, error)))
            pending.append(lambda done=done: done.get(timeout=30)[0])
    assert all(np.array_equal(p().as_numpy("wdl"), first["wdl"]) for p in pending)
    print("eight at once: as before")
    for what, do in {
        "no such model": lambda: client.infer("nobody", [three["moves"]()]),
        "no such move": lambda: client.infer("bitsquares", [tensor(module, "moves", "BYTES", np.array(["448"], dtype=object))]),
        "wrong type": lambda: client.infer("bitsquares", [tensor(module, "bitboards", "INT64", BITBOARDS.astype(np.int64))]),
        "no repository": lambda: client.get_model_repository_index(),
    }.items():
        try:
            do()
            print(f"{what}: no error")
        except InferenceServerException as e:
            print(f"{what}: {e.status()}: {e.message()}")


def stream(client):
    print("== a stream")
    done = queue.Queue()
    client.start_stream(lambda result, error: done.put((result, error)))
    for i, moves in enumerate(["44554", "448", "-"]):
        t = tensor(grpc, "moves", "BYTES", np.array([moves], dtype=object))
        client.async_stream_infer("bitsquares", [t], request_id=str(i), outputs=[grpc.InferRequestedOutput("wdl")])
    lines = []
    for _ in range(3):  # each comes when it is ready
        result, error = done.get(timeout=30)
        if error is not None:
            lines.append(f"error: {error.message()}")
        else:
            lines.append(f"{result.get_response().id} {[f'{x:.4f}' for x in result.as_numpy('wdl').flatten()]}")
    print(*sorted(lines), sep="\n")
    t = tensor(grpc, "moves", "BYTES", np.array(["44"], dtype=object))
    client.async_stream_infer("search", [t], outputs=[grpc.InferRequestedOutput("visits")], parameters={"visits": 500, "progress": True})
    last = False
    while not last:
        result, error = done.get(timeout=30)
        assert error is None, error
        last = result.get_response().parameters["triton_final_response"].bool_param
        print(result.as_numpy("visits").sum(), "visits, the last" if last else "visits")
    client.stop_stream()


def descriptions(client, web):
    print("== descriptions")
    meta, of_web = client.get_model_metadata("bitsquares", as_json=True), web.get_model_metadata("bitsquares")
    for of in (meta["inputs"], of_web["inputs"], meta["outputs"], of_web["outputs"]):
        print([(t["name"], t["datatype"], [int(n) for n in t["shape"]]) for t in of])
    config = web.get_model_config("bitsquares")
    print(config["max_batch_size"], config["dynamic_batching"]["max_queue_delay_microseconds"], config["input"][0])
    print(client.get_model_config("bitsquares").config.dynamic_batching.priority_levels)
    stats = client.get_inference_statistics("bitsquares").model_stats[0]
    of_web = web.get_inference_statistics("bitsquares")["model_stats"][0]
    assert (stats.inference_count, stats.execution_count) == (of_web["inference_count"], of_web["execution_count"])
    assert stats.inference_stats.success.count > 0 and stats.inference_stats.fail.count > 0
    assert sum(b.batch_size * b.compute_infer.count for b in stats.batch_stats) == stats.inference_count, stats


def compare():
    """Each message, field, number, type and call of evald's is the client's."""
    ours = descriptor_pb2.FileDescriptorSet.FromString(open(descriptors, "rb").read())
    theirs = {}
    for module in (service_pb2, model_config_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        theirs[file.name] = file
    count = 0

    def message(a, b):
        nonlocal count
        fields = {f.name: f for f in b.field}
        for f in a.field:
            g = fields[f.name]
            assert (f.number, f.type, f.label, f.type_name, f.HasField("oneof_index")) == (g.number, g.type, g.label, g.type_name, g.HasField("oneof_index")), (a.name, f, g)
            count += 1
        nested = {m.name: m for m in b.nested_type}
        for m in a.nested_type:
            message(m, nested[m.name])
        enums = {e.name: e for e in b.enum_type}
        for e in a.enum_type:
            values(e, enums[e.name])

    def values(a, b):
        numbers = {v.name: v.number for v in b.value}
        for v in a.value:
            assert numbers[v.name] == v.number, v

    for a in ours.file:
        b = theirs[a.name]
        assert a.package == b.package
        messages, enums = {m.name: m for m in b.message_type}, {e.name: e for e in b.enum_type}
        for m in a.message_type:
            message(m, messages[m.name])
        for e in a.enum_type:
            values(e, enums[e.name])
        for s in a.service:
            calls = {c.name: c for c in b.service[0].method}
            for c in s.method:
                d = calls[c.name]
                assert (c.input_type, c.output_type, c.client_streaming, c.server_streaming) == (d.input_type, d.output_type, d.client_streaming, d.server_streaming), c
                count += 1
    print(f"== {count} fields and calls as the client has them")


grpc_client, http_client = grpc.InferenceServerClient(grpc_address), http.InferenceServerClient(http_address, concurrency=4)
infer(grpc, grpc_client)
infer(http, http_client)
stream(grpc_client)
descriptions(grpc_client, http_client)
compare()
grpc_client.close()
http_client.close()
