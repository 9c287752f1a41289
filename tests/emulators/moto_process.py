"""moto's S3 server as a program, with conditional puts that are atomic as in S3.

moto checks for the key and then writes, so that two concurrent puts would both succeed. It runs in
a process of its own, because it leaves temporary files of overwritten objects open.
"""

from __future__ import annotations

import sys
import threading


def main(port: str) -> None:
    """Serve until terminated."""
    from moto.s3.responses import S3Response
    from moto.server import main as serve

    lock, put = threading.Lock(), S3Response.put_object

    def put_alone(self):
        with lock:
            return put(self)

    S3Response.put_object = put_alone
    serve(["--host", "127.0.0.1", "--port", port])


if __name__ == "__main__":
    main(sys.argv[1])
