"""An S3 server for tests: moto, one request at a time.

S3 promises that of several requests which create an object if it is absent one wins. moto looks
whether the object is there and writes it afterwards, so that two of its threads may both win. A
lock around each request gives the promise back.
"""

import sys
import threading

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple

service = DomainDispatcherApplication(create_backend_app)
one_at_a_time = threading.Lock()


def serve(environ, start_response):
    with one_at_a_time:
        return list(service(environ, start_response))


run_simple("127.0.0.1", int(sys.argv[1]), serve, threaded=True, request_handler=MotoRequestHandler)
