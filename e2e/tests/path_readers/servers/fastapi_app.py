"""FastAPI on uvicorn, with the routes of a file: each answers with its name and the parameters that it read.

usage: fastapi_app.py ROUTES PORT
"""

import json
import sys
from urllib.parse import unquote

import fastapi
import uvicorn


def handler(name):
    def answer(request: fastapi.Request):
        return {"route": name, "values": request.path_params}

    return answer


app = fastapi.FastAPI(openapi_url=None)
with open(sys.argv[1], encoding="utf-8") as file:
    for route in json.load(file):
        # FastAPI compares with the decoded path.
        app.add_api_route(unquote(route["path"]), handler(route["name"]), methods=[route["method"]])

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
