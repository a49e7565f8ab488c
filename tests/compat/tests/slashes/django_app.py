"""Django with `APPEND_SLASH` as it comes: its paths end with a slash, and without one it redirects. A view answers with what it got.

usage: django_app.py PORT
"""

import sys
from wsgiref.simple_server import ServerHandler, make_server

from django.conf import settings

settings.configure(
    SECRET_KEY="x",
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
)

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402


def view(name):
    @csrf_exempt
    def answer(request, **values):
        got = {"view": name, "values": values, "method": request.method, "query": request.GET, "body": request.body.decode()}
        return JsonResponse({**got, "key": request.headers.get("Idempotency-Key")}, status=201 if request.method == "POST" else 200)

    return answer


urlpatterns = [
    path("orders/", view("orders")),
    path("orders/<int:id>/", view("order")),
    path("orders/<int:id>/notes", view("notes")),
    path("files/<path:name>", view("files")),
]

if __name__ == "__main__":
    # As Django's own `runserver` does; wsgiref alone answers in HTTP/1.0.
    ServerHandler.http_version = "1.1"
    make_server("127.0.0.1", int(sys.argv[1]), get_wsgi_application()).serve_forever()
