"""Serve an exported network without torch: `python serve_onnx.py digits.onnx 8000`, then POST images as JSON."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])


class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        images = np.array(json.loads(self.rfile.read(int(self.headers["Content-Length"]))), np.float32)
        (lengths,) = session.run(["lengths"], {"images": images})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([dict(zip(classes, row.tolist(), strict=True)) for row in lengths]).encode())


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[2])), Answer).serve_forever()
