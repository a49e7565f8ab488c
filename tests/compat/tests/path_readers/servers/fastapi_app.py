"""FastAPI on uvicorn, with the routes of a file: each answers with its name and the parameters that it read. `/users` answers
errors, for the test `framework_errors`: those of its own validation, and a problem document (RFC 9457).

usage: fastapi_app.py ROUTES PORT
"""

import json
import sys
from urllib.parse import unquote

import fastapi
import pydantic
import uvicorn


def handler(name):
    def answer(request: fastapi.Request):
        return {"route": name, "values": request.path_params}

    return answer


class User(pydantic.BaseModel):
    name: str
    age: int


app = fastapi.FastAPI(openapi_url=None)


@app.post("/users")
def create_user(user: User):
    return user


@app.get("/users/{number}")
def find_user(number: str):
    problem = {
        "type": "https://api.example.com/problems/no-such-user",
        "title": "There is no such user",
        "status": 404,
        "detail": f"GET /users/{number}: no such user",
        "instance": f"/users/{number}",
        "errors": [{"path": "/var/users", "href": "/users", "url": "file:///etc/users"}],
    }
    return fastapi.responses.JSONResponse(problem, 404, media_type="application/problem+json")


with open(sys.argv[1], encoding="utf-8") as file:
    for route in json.load(file):
        # FastAPI compares with the decoded path.
        app.add_api_route(unquote(route["path"]), handler(route["name"]), methods=[route["method"]])

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
