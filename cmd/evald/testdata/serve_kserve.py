"""Asks a running evald serve with KServe's client, over REST and gRPC, and prints what it answers.

    python serve_kserve.py HTTP_ADDRESS GRPC_ADDRESS
"""
import asyncio
import logging
import sys

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.grpc.grpc_predict_v2_pb2 import ModelMetadataRequest, ServerMetadataRequest
from kserve.protocol.rest import v2_datamodels as v2

http_address, grpc_address = "http://" + sys.argv[1], sys.argv[2]
MODEL = "bitsquares"
BITBOARDS = np.array([[1 << 22 | 1 << 29, 1 << 21 | 1 << 22 | 1 << 23 | 1 << 28 | 1 << 29], [0, 0]], dtype=np.uint64)  # 44554 and -


def request(name, datatype, values, binary=False):
    t = InferInput(name, list(values.shape), datatype)
    t.set_data_from_numpy(values, binary_data=binary)
    return InferRequest(MODEL, [t], request_id="one")


def show(what, answer):
    print(what, answer.model_name, answer.id)
    for o in answer.outputs:
        values = o.as_numpy()
        flat = [f"{float(v):.4f}" if o.datatype != "BYTES" else v.decode() if isinstance(v, bytes) else v for v in values.flatten()]
        print(f"  {o.name} {o.datatype} {list(values.shape)}: {' '.join(flat)}")


async def ask(transport, ready, infer, refused):
    for what in ("is_server_live", "is_server_ready"):
        print(f"{transport}: {what}:", await ready(what))
    print(f"{transport}: is_model_ready:", await ready("is_model_ready", MODEL))
    moves = np.array(["44554", "-"], dtype=object)
    show(f"{transport}: moves", await infer(request("moves", "BYTES", moves, binary=True)))
    show(f"{transport}: bitboards", await infer(request("bitboards", "UINT64", BITBOARDS)))
    try:
        await infer(request("moves", "BYTES", np.array(["448"], dtype=object), binary=True))
    except refused as e:
        print(f"{transport}: no such move:", e.details() if transport == "grpc" else str(e).split(" for url")[0])


async def main():
    # The client's own data models read the bodies of what its methods do not ask for.
    async with httpx.AsyncClient() as plain:
        for path, model in {
            "/v2/health/live": v2.ServerLiveResponse, "/v2/health/ready": v2.ServerReadyResponse, f"/v2/models/{MODEL}/ready": v2.ModelReadyResponse,
            "/v2/models/nobody/ready": v2.ModelReadyResponse, "/v2": v2.ServerMetadataResponse, f"/v2/models/{MODEL}": v2.ModelMetadataResponse,
        }.items():
            answer = await plain.get(http_address + path)
            body = model.model_validate_json(answer.content).model_dump(exclude={"version", "platform"})
            print(path, answer.status_code, body)
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        await ask("http", lambda what, *model: getattr(client, what)(http_address, *model), lambda r: client.infer(http_address, r, MODEL), httpx.HTTPStatusError)
        print("http: another model is ready:", await client.is_model_ready(http_address, "nobody"))
    async with InferenceGRPCClient(grpc_address) as client:
        await ask("grpc", lambda what, *model: getattr(client, what)(*model), client.infer, grpc.RpcError)
        print("grpc: another model is ready:", await client.is_model_ready("nobody"))
        print("grpc: metadata:", (await client._client_stub.ServerMetadata(ServerMetadataRequest())).name,
              [t.name for t in (await client._client_stub.ModelMetadata(ModelMetadataRequest(name=MODEL))).outputs])


logging.disable()  # the client logs the errors that it raises
asyncio.run(main())
