"""What handlers do with an answer, between middlewares that are around the one of examples/fastapi and inside it. `around.json` has the
requests."""

import os
from collections import Counter
from pathlib import Path

from fastapi import APIRouter, BackgroundTasks, FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.sessions import SessionMiddleware

from idempotency import Idempotency, Store

TEXT = "all work and no play " * 200
PIECES = ["one, ", "two, ", "three"]
STORE = Store(os.environ["IDEMPOTENCY_DB"], lease=86_400, retention=86_400)
runs: Counter[str] = Counter()
handlers = APIRouter()


def on(path):
    return handlers.api_route(path, methods=["GET", "HEAD", "POST"])


@on("/cart")
def cart(request: Request):
    request.session["items"] = request.session.get("items", 0) + 1
    return {"items": request.session["items"]}


@on("/cookies")
def cookies(response: Response):
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return {}


@on("/text")
def text():
    return PlainTextResponse(TEXT)


@on("/empty")
def empty():
    return Response(status_code=204)


@on("/redirect")
def redirect():
    return RedirectResponse("/elsewhere", 303)


@on("/file")
def file():
    return FileResponse(Path(__file__).parent / "file.txt")


@on("/stream")
def stream():
    return StreamingResponse(iter(PIECES), media_type="text/plain")


@on("/breaks")
def breaks():
    def pieces():
        yield "partial"
        raise RuntimeError("after the first bytes")

    return StreamingResponse(pieces(), media_type="text/plain")


@on("/body")
async def body(request: Request):
    return PlainTextResponse((await request.body()).upper())


@on("/background")
def background(tasks: BackgroundTasks):
    tasks.add_task(lambda: runs.update(["background"]))
    return {}


@on("/background-fails")
def background_fails(tasks: BackgroundTasks):
    tasks.add_task(lambda: 1 / 0)
    return {}


@on("/noted")
def noted(request: Request):
    request.state.note = "written by the handler"
    return {}


@on("/lines")
def lines():
    response = PlainTextResponse("ok", 201)
    response.raw_headers += [(b"x-a", b"1"), (b"x-b", b"\xff"), (b"x-a", b"2")]
    return response


class Silent:
    """Returns without an answer."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or not scope["path"].endswith("/silent"):
            await self.app(scope, receive, send)


class Noted:
    """Writes what it reads of the scope after the handler."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        async def noted(message):
            if message["type"] == "http.response.start":
                note = scope.get("state", {}).get("note", "none")
                route = getattr(scope.get("route"), "path", "none")
                message["headers"] = [*message["headers"], (b"x-note", note.encode()), (b"x-route", route.encode())]
            await send(message)

        await self.app(scope, receive, noted)


class Counted:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            runs[scope["path"]] += 1
        await self.app(scope, receive, send)


async def passed(request, call_next):
    return await call_next(request)


SESSION = (SessionMiddleware, {"secret_key": "s"})
GZIP = (GZipMiddleware, {})
CORS = (CORSMiddleware, {"allow_origins": ["https://a.example.com", "https://b.example.com"], "allow_credentials": True})
SURROUNDINGS = {
    "bare": ([], []),
    "session": ([SESSION], []),
    "session-after": ([], [SESSION]),
    "compressed": ([GZIP], []),
    "compressed-after": ([], [GZIP]),
    "secured": ([CORS], []),
    "noted": ([(Noted, {})], []),
    "base": ([(BaseHTTPMiddleware, {"dispatch": passed})], [(BaseHTTPMiddleware, {"dispatch": passed})]),
}

app = FastAPI()


@app.get("/runs")
def counts():
    return runs


for name, (outer, inner) in SURROUNDINGS.items():
    api = FastAPI()
    api.include_router(handlers)
    # What is added last is outermost.
    for middleware, options in [(Silent, {}), *inner, (Counted, {}), (Idempotency, {"store": STORE}), *outer]:
        api.add_middleware(middleware, **options)
    app.mount(f"/{name}", api)
