"""A real server on loopback, its client, and checks; the standard library only."""
import base64
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM, TOOLS = sys.argv[1], sys.argv[2]
SLOW = 600  # seconds until a wait is a failure: far more than a busy machine needs, also with a sanitizer

work = tempfile.mkdtemp(prefix="zenith-server.")
os.makedirs(os.path.join(work, "tmp"))
# Other models of the machine are not in reach.
environment = dict(os.environ, HOME=work, XDG_DATA_HOME=work, XDG_DATA_DIRS=work, XDG_CACHE_HOME=work,
                   TMPDIR=os.path.join(work, "tmp"), LC_ALL="C",
                   ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
environment.pop("ZENITH_MODELS", None)
environment.pop("ZENITH_API_KEY", None)


def skip(why):
    """Of a program or library that scripts/deps.sh installs: with ZENITH_MUST_RUN, skipping is a failure (tests/skip.h)."""
    print("skipped: " + why)
    shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if os.environ.get("ZENITH_MUST_RUN") else 77)


def run(*words, **options):
    return subprocess.run(list(words), cwd=work, env=environment, check=True, stdout=subprocess.PIPE, **options).stdout


def tool(name, *words):
    return run(os.path.join(TOOLS, name), *words)


def program(*words):
    return run(PROGRAM, *words, "-q")


def path(name):
    return os.path.join(work, name)


def content(name):
    with open(path(name), "rb") as f:
        return f.read()


def wait_for(what, condition):
    end = time.time() + SLOW
    while time.time() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("waited too long for " + what)


def same(got, expected, what):
    assert got == expected, f"{what}: {str(got)[:300]!r}, expected {str(expected)[:300]!r}"


class Server:
    all = []

    def __init__(self, *options, env=None, stderr=None, program=PROGRAM):
        self.log = open(path("log"), "w+b")
        leaks = {"ASAN_OPTIONS": environment["ASAN_OPTIONS"].replace("detect_leaks=0", "detect_leaks=1")}
        self.process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", *options], cwd=work,
                                        env=dict(environment, **leaks, **(env or {})), stdout=subprocess.PIPE, stderr=stderr or self.log)
        Server.all.append(self)
        line = self.process.stdout.readline().decode()
        found = re.search(r":(\d+)/$", line.strip())
        assert found, "the server does not start: " + line + self.messages()
        self.port = int(found.group(1))

    def messages(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SLOW)

    def ask(self, method, address, body=None, headers=None):
        c = self.connect()
        c.request(method, address, body, headers or {})
        answer = c.getresponse()
        bytes_ = answer.read()
        c.close()
        return answer.status, bytes_, answer

    def json(self, method, address, body=None, headers=None, expect=200):
        if body is not None and not isinstance(body, (bytes, str)):
            body, headers = json.dumps(body), dict(headers or {}, **{"Content-Type": "application/json"})
        status, text, _ = self.ask(method, address, body, headers)
        assert status == expect, f"{method} {address}: {status} {text[:300]!r}, expected {expect}"
        return json.loads(text)

    def form(self, address, fields, expect=200, headers=None):
        """fields: (name, value) or (name, (file name, bytes))"""
        mark = "----zenith" + os.urandom(8).hex()
        parts = []
        for name, value in fields:
            named, bytes_ = value if isinstance(value, tuple) else (None, str(value).encode())
            head = f'--{mark}\r\nContent-Disposition: form-data; name="{name}"'
            if named is not None:
                head += f'; filename="{named}"\r\nContent-Type: application/octet-stream'
            parts.append(head.encode() + b"\r\n\r\n" + bytes_ + b"\r\n")
        body = b"".join(parts) + f"--{mark}--\r\n".encode()
        return self.json("POST", address, body, dict(headers or {}, **{"Content-Type": f"multipart/form-data; boundary={mark}"}), expect)

    def job(self, task, files=(), expect="done", **fields):
        """Runs a job to its end and returns it."""
        options = fields.pop("options", {})
        job = self.form("/api/jobs?wait=1", [("task", task), *fields.items(), ("options", json.dumps(options)),
                                             *(("file", (name, content(name))) for name in files)])
        same(job["state"], expect, f"{task} ({job['error']})")
        return job

    def result(self, job, number=0):
        status, bytes_, _ = self.ask("GET", job["results"][number]["url"])
        same(status, 200, "result")
        return bytes_

    def events(self, address, method="GET", body=None):
        """Yields (name, data) as they come."""
        c = self.connect()
        c.request(method, address, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = c.getresponse()
        same(answer.status, 200, address)
        name = None
        for line in answer:
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, json.loads(line[6:])
        c.close()

    def stop(self, expect=0):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(SLOW)
        same((status, self.messages()), (expect, ""), "the server's end")
        same(os.listdir(path("tmp")), [], "files of jobs that are left")


def main(*tests):
    """Runs the tests; says which one failed."""
    try:
        for test in tests:
            started = time.time()
            test()
            print(f"{test.__name__}: {time.time() - started:.1f} s", flush=True)
    finally:
        for server in Server.all:
            server.process.kill()
            server.process.wait()
        shutil.rmtree(work, ignore_errors=True)
