"""Evaluations and searches by a service (`evald serve`), over REST: KServe v2 with binary tensors."""
from __future__ import annotations

import base64
import http.client
import json
import os
import threading
import urllib.parse
from typing import Any, Mapping

import numpy as np
import numpy.typing as npt

from ._library import EvaldError, UnavailableError
from ._positions import Positions

ROWS = 1 << 12  # positions of a request; a service accepts 4096 by default (evald serve --rows)
SEARCHED = 64  # positions of a request for searches; small, because a request must end before the service's time limit
TYPES = {"FP32": np.float32, "INT32": np.int32}

Array = npt.NDArray[Any]


class Service:
    """A model of a service. Each thread has a connection of its own, which stays open."""

    def __init__(self, url: str, model: str | None, timeout: float) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment:
            raise EvaldError(f"url is {url!r}, and must be like http://HOST:PORT, without a path")
        try:
            port = parts.port
        except ValueError as error:
            raise EvaldError(f"url is {url!r}: {error}") from None
        self.model, self.named, self.closed = model or "default", model is not None, False
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # without a password
        self._connect: tuple[Any, str, int | None] = (http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection, parts.hostname, port)
        self._timeout, self._here = timeout, threading.local()
        self._headers = {"Content-Type": "application/octet-stream"}
        if parts.password:
            user = f"{urllib.parse.unquote(parts.username or '')}:{urllib.parse.unquote(parts.password)}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()

    def close(self) -> None:
        """Marks the service as closed, so that its evaluator refuses later calls. Connections of other threads close when those threads end."""
        self.closed, kept = True, getattr(self._here, "connection", None)
        if kept is not None:
            kept[1].close()

    def _fails(self, what: object) -> UnavailableError:
        return UnavailableError(f"evald: the service {self.url}: {what}; the next call asks it again")

    def _request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = {}) -> tuple[Any, bytes]:
        """The answer's headers and body."""
        kept: tuple[int, http.client.HTTPConnection] | None = getattr(self._here, "connection", None)
        self._here.connection = None
        fresh = kept is None or kept[0] != os.getpid()  # after a fork the old connection belongs to the parent
        while True:
            if kept is None or fresh:
                kind, host, port = self._connect
                kept = (os.getpid(), kind(host, port, timeout=self._timeout))
            connection = kept[1]
            try:
                connection.request(method, path, body, {**self._headers, **headers})
                response = connection.getresponse()
                content = response.read()
                break
            except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected) as error:
                connection.close()
                if fresh:
                    raise self._fails(f"it ended the connection before its answer: {error}") from None
                fresh = True  # the service had closed an idle connection: retry with a new one
            except TimeoutError:
                connection.close()
                raise self._fails(f"no answer within {self._timeout:g} seconds (timeout=)") from None
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise self._fails(f"cannot be asked: {error!r}") from None
            except BaseException:  # an interrupt: closing the connection also ends the work in the service
                connection.close()
                raise
        self._here.connection = kept
        if response.status == 200:
            return response.headers, content
        try:
            text = json.loads(content)["error"]
        except (ValueError, KeyError, TypeError):
            text = content[:200].decode("utf-8", "replace")
        text = f"{text} (HTTP {response.status})"
        if response.status == 429 or response.status >= 500:
            raise self._fails(text)
        raise EvaldError(f"evald: the service {self.url}: {text}")

    def about(self) -> dict[str, Any]:
        """Evaluator.about for a service. It raises an error if the service or the named model does not exist."""
        try:
            self._request("GET", f"/v2/models/{urllib.parse.quote(self.model, safe='')}/ready" if self.named else "/v2/health/ready")
        except EvaldError:
            raise EvaldError(f"evald: the service {self.url}: {f'model {self.model!r}' if self.named else 'it'} is not there, or not ready") from None
        return dict(model=self.model, how=f"model {self.model} of {self.url}", network=True, games=[], notes=[])

    def ask(self, model: str, positions: Positions, outputs: Mapping[str, int], parameters: Mapping[str, Any]) -> tuple[dict[str, Array], list[str], str]:
        """Asks a model for outputs, given as a dict of names and numbers of columns C. Returns them, [N,C] each, the source of each answer, and
        the search in words, or ""."""
        b, n = positions.board, len(positions)
        words = positions.words if b.columns * (b.rows + 1) > 64 else positions.words[:, ::2]
        body = np.ascontiguousarray(words, "<u8").tobytes()
        head = json.dumps({
            "parameters": {"board": b.rules, "binary_data_output": True, **{k: v for k, v in parameters.items() if v is not None}},
            "inputs": [{"name": "bitboards", "datatype": "UINT64", "shape": list(words.shape), "parameters": {"binary_data_size": len(body)}}],
            "outputs": [{"name": name} for name in (*outputs, "source")],
        }).encode()
        headers, content = self._request("POST", f"/v2/models/{urllib.parse.quote(model, safe='')}/infer", head + body, {"Inference-Header-Content-Length": str(len(head))})
        try:
            length = int(headers["Inference-Header-Content-Length"])
            at, arrays = length, {}
            told = json.loads(content[:length])
            for o in told["outputs"]:
                size = o["parameters"]["binary_data_size"]
                arrays[o["name"]] = _strings(content[at : at + size]) if o["datatype"] == "BYTES" else np.frombuffer(content[at : at + size], TYPES[o["datatype"]])
                at += size
            found: dict[str, Array] = {name: arrays[name].reshape(n, columns) for name, columns in outputs.items()}  # type: ignore[union-attr]
            return found, list(arrays["source"]), str(told.get("parameters", {}).get("rule", ""))
        except (KeyError, TypeError, ValueError) as error:
            raise self._fails(f"its answer is not one of evald serve: {error!r}") from None

    def evaluate(self, positions: Positions, exact: int | None) -> tuple[Array, Array, list[str]]:
        """The answers wdl [N,3] and policy [N,A], and their sources [N]."""
        n, a = len(positions), positions.board.actions
        wdl, policy, sources = np.empty((n, 3), np.float32), np.empty((n, a), np.float32), []
        for i in range(0, n, ROWS):
            found, who, _ = self.ask(self.model, positions[i : i + ROWS], dict(wdl=3, policy=a), dict(exact=exact))
            wdl[i : i + ROWS], policy[i : i + ROWS] = found["wdl"], found["policy"]
            sources += who
        return wdl, policy, sources


def _strings(of: bytes) -> list[str]:
    """Decodes strings, each of which is preceded by its size in four bytes."""
    found, at = [], 0
    while at < len(of):
        size = int.from_bytes(of[at : at + 4], "little")
        found.append(of[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return found
