"""A real HTTP server on this machine that answers each request as it was told to."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


def status(code: int, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(b'{"error": {"message": "as scripted"}}')

    return answer


def body(text: str, kind: str = "application/json") -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", kind)
        handler.end_headers()
        handler.wfile.write(text.encode())

    return answer


def events(*chunks: object, done: bool = True) -> Answer:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + (["data: [DONE]\n\n"] if done else [])
    return body("".join(lines), "text/event-stream")


def silent(seconds: float) -> Answer:
    return lambda handler: time.sleep(seconds)


def endless(chunk: object) -> Answer:
    """Streams the chunk until the client goes away."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        except OSError:
            pass  # what is waited for

    return answer


def delta(
    text: str = "", calls: list[dict[str, Any]] | None = None, finish: str | None = None
) -> dict[str, Any]:
    """A chunk of an OpenAI stream."""
    said: dict[str, Any] = {"content": text}
    if calls:
        said["tool_calls"] = calls
    choice = {"index": 0, "delta": said, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}


USAGE = {
    "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [],
    "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
              "prompt_tokens_details": {"cached_tokens": 60}},
}  # fmt: skip


class Served:
    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[dict[str, Any]] = []


@contextmanager
def serving(*answers: Answer) -> Iterator[Served]:
    """Gives the answers in order, the last one again and again."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["content-length"])
            served.asked.append(json.loads(self.rfile.read(size)))
            answers[min(len(served.asked), len(answers)) - 1](self)

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Served(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
