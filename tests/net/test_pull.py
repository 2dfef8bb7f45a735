"""zenith pull against a server on loopback: resume, wrong hash, full disk, redirect, refusals, mirror, token.

    test_pull.py PROGRAM
"""

import fcntl
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PROGRAM = os.path.abspath(sys.argv.pop(1))
BODY = bytes(range(256)) * 4000  # 1,024,000 bytes
SHA256 = hashlib.sha256(BODY).hexdigest()
TAESD = "raw.githubusercontent.com/madebyollin/taesd/5cccb12dc72074a4be35680c3b108548a7c69978/"


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []  # (path, headers)
        self.breaks = 0  # how many transfers are cut in the middle
        self.ranges = True
        self.body = BODY
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A client that goes away is part of these tests."""

    def url(self, path):
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body=b"", headers={}):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        server = self.server
        server.requests.append((self.path, dict(self.headers)))
        kind = self.path.strip("/").split("/")[0]
        if kind == "gone":
            return self.answer(404, b"an error page that must not become a model")
        if kind == "odd":  # no range is right for it
            return self.answer(416, b"", {"Content-Range": "bytes */7"})
        if kind == "busy":
            return self.answer(503, b"later")
        if kind == "secret" and self.headers.get("Authorization") != "Bearer right":
            return self.answer(401, b"who are you?")
        if kind == "elsewhere":
            return self.answer(302, b"moved", {"Location": f"http://localhost:{server.server_address[1]}/secret-free.pth"})
        if kind == "loop":
            return self.answer(302, b"", {"Location": self.path})
        if kind == "file":
            return self.answer(302, b"", {"Location": "file:///etc/passwd"})
        if kind == "stated":  # as huggingface.co does
            return self.answer(302, b"", {"Location": "/cdn.gguf", "X-Linked-ETag": f'"{server.stated}"'})
        self.send_file()

    def send_file(self):
        server, body, begin = self.server, self.server.body, 0
        wanted = self.headers.get("Range")
        if wanted and server.ranges:
            begin = int(wanted.split("=")[1].rstrip("-"))
            if begin >= len(body):
                return self.answer(416, b"", {"Content-Range": f"bytes */{len(body)}"})
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - begin))
        self.end_headers()
        end = len(body)
        if server.breaks:
            server.breaks -= 1
            end = begin + (len(body) - begin) // 2
            self.close_connection = True
        self.wfile.write(body[begin:end])
        if self.path.startswith("/slow"):
            self.wfile.flush()
            time.sleep(30)


class Pull(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.server = Server()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def environment(self, **extra):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder), "LC_ALL": "C",
                "ASAN_OPTIONS": "detect_leaks=0", "ZENITH_LOG_SECONDS": "0", **extra}

    def pull(self, *arguments, limit=None, **extra):
        """Exit status, stdout and stderr."""
        before = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None
        done = subprocess.run([PROGRAM, "pull", *map(str, arguments)], env=self.environment(**extra), text=True,
                              capture_output=True, timeout=600, preexec_fn=before)
        return done.returncode, done.stdout, done.stderr

    def take(self, path, *arguments, **extra):
        return self.pull("mine", "--from", self.server.url(path), "-o", self.folder / "out", *arguments, **extra)

    def files(self):
        return sorted(path.name for path in (self.folder / "out").glob("*"))

    def test_whole(self):
        status, out, err = self.take("a/b.pth", "--sha256", SHA256.upper())
        self.assertEqual((status, err), (0, ""))
        self.assertIn("mine.pth  1000.0 KiB, hash is right", out)
        self.assertEqual((self.folder / "out" / "mine.pth").read_bytes(), BODY)
        self.assertEqual(self.files(), ["mine.pth"])
        status, out, _ = self.take("a/b.pth", "--sha256", SHA256)
        self.assertIn("already there, hash is right", out)
        self.assertEqual(len(self.server.requests), 1)
        status, _, err = self.take("a/b.pth", "--sha256", "0" * 64)
        self.assertEqual(status, 1)
        self.assertIn("remove it, or fetch it again with --force", err)
        self.assertEqual(len(self.server.requests), 1)
        self.server.body = b"newer"
        self.assertEqual(self.take("a/b.pth", "--force")[0], 0)
        self.assertEqual((self.folder / "out" / "mine.pth").read_bytes(), b"newer")

    def test_broken_connections_resume(self):
        self.server.breaks = 3
        status, out, err = self.take("a.pth", "--sha256", SHA256)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual((self.folder / "out" / "mine.pth").read_bytes(), BODY)
        ranges = [headers.get("Range") for _, headers in self.server.requests]
        self.assertEqual(ranges, [None, "bytes=512000-", "bytes=768000-", "bytes=896000-"])

    def test_a_later_call_resumes(self):
        (self.folder / "out").mkdir()
        (self.folder / "out" / "mine.pth.part").write_bytes(BODY[:1000])
        status, out, err = self.take("a.pth", "--sha256", SHA256, "--json")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(json.loads(out)["files"][0]["resumed"], 1000)
        self.assertEqual(self.server.requests[0][1]["Range"], "bytes=1000-")

    def test_a_complete_part_is_checked_and_renamed(self):
        (self.folder / "out").mkdir()
        (self.folder / "out" / "mine.pth.part").write_bytes(BODY)
        self.assertEqual(self.take("a.pth", "--sha256", SHA256)[0], 0)
        self.assertEqual(self.files(), ["mine.pth"])

    def test_a_part_that_is_too_long_is_begun_again(self):
        (self.folder / "out").mkdir()
        (self.folder / "out" / "mine.pth.part").write_bytes(BODY + b"more")
        self.assertEqual(self.take("a.pth", "--sha256", SHA256)[0], 0)
        self.assertEqual((self.folder / "out" / "mine.pth").read_bytes(), BODY)

    def test_a_server_without_ranges(self):
        self.server.ranges = False
        self.server.breaks = 1
        status, out, err = self.take("a.pth", "--sha256", SHA256)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual((self.folder / "out" / "mine.pth").read_bytes(), BODY)

    def test_wrong_hash(self):
        status, _, err = self.take("a.pth", "--sha256", "12" * 32)
        self.assertEqual(status, 1)
        self.assertIn(f"is not the published file: its SHA-256 is {SHA256}, not {'12' * 32}; it was removed", err)
        self.assertEqual(self.files(), [])

    def test_a_hash_that_the_server_states(self):
        self.server.stated = SHA256
        self.assertIn("hash is right", self.take("stated/a.gguf")[1])
        self.server.stated = "ab" * 32
        self.assertIn("is not the published file", self.take("stated/a.gguf", "--force")[2])
        self.assertIn("no hash to compare", self.take("plain.gguf", "--force")[1])

    def test_full_disk(self):
        status, _, err = self.take("a.pth", limit=500000)
        self.assertEqual(status, 1)
        self.assertRegex(err, "mine.pth.part: cannot be written: .*; what was fetched is kept, and the next pull continues it")
        self.assertEqual(self.files(), ["mine.pth.part"])
        self.assertEqual(self.take("a.pth", "--sha256", SHA256)[0], 0)
        self.assertTrue(self.server.requests[-1][1]["Range"].startswith("bytes="))

    def test_redirects(self):
        status, out, err = self.take("elsewhere/a.pth", "--token", "right", "--sha256", SHA256)
        self.assertEqual((status, err), (0, ""))
        first, second = (headers for _, headers in self.server.requests)
        self.assertEqual(first["Authorization"], "Bearer right")
        self.assertNotIn("Authorization", second)  # another host
        self.assertEqual(self.take("loop/a.pth", "--force")[0], 1)
        status, _, err = self.take("file/a.pth", "--force")
        self.assertEqual(status, 1)
        self.assertNotIn("root:", (self.folder / "out" / "mine.pth").read_bytes().decode("latin-1"))

    def test_refusals(self):
        status, _, err = self.take("gone/a.pth")
        self.assertEqual(status, 1)
        self.assertIn("the server has no such file (404)", err)
        self.assertEqual(self.files(), [])
        status, _, err = self.take("secret/a.pth")
        self.assertIn("the server refuses access (401); accept the licence on the publisher's page, then use --token", err)
        self.assertIn("use a token that has access", self.take("secret/a.pth", "--token", "wrong")[2])
        self.assertEqual(self.take("secret/a.pth", "--token", "right", "--sha256", SHA256)[0], 0)
        (self.folder / "out" / "mine.pth").unlink()
        self.assertIn("status 416", self.take("odd/a.pth")[2])
        (self.folder / "out" / "mine.pth.part").write_bytes(b"12345678")
        self.assertIn("status 416", self.take("odd/a.pth")[2])
        self.assertEqual(self.files(), [])
        self.assertIn("status 503", self.take("busy/a.pth", "--force")[2])

    def test_no_server(self):
        status, _, err = self.pull("mine", "--from", "http://127.0.0.1:1/a.pth", "-o", self.folder / "out")
        self.assertEqual(status, 1)
        self.assertRegex(err, "^zenith: http://127.0.0.1:1/a.pth: .*connect")

    def test_interrupt_keeps_the_part(self):
        command = [PROGRAM, "pull", "mine", "--from", self.server.url("slow.pth"), "-o", str(self.folder / "out")]
        self.server.breaks = 1
        running = subprocess.Popen(command, env=self.environment(), stderr=subprocess.PIPE, text=True)
        part = self.folder / "out" / "mine.pth.part"
        for _ in range(12000):
            if part.exists() and part.stat().st_size:
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        err = running.communicate(timeout=600)[1]
        self.assertEqual(running.returncode, -signal.SIGINT)
        self.assertIn("cancelled; the next pull continues it", err)
        self.assertEqual(self.files(), ["mine.pth.part"])

    def test_a_part_of_another_process_stays(self):
        part = self.folder / "out" / "mine.pth.part"
        part.parent.mkdir()
        with open(part, "wb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            status, _, err = self.take("a.pth")
            self.assertEqual(status, 1)
            self.assertIn("another process is fetching it", err)
            self.assertEqual(self.files(), ["mine.pth.part"])
        self.assertEqual(self.take("a.pth")[0], 0)
        self.assertEqual(self.files(), ["mine.pth"])

    def test_mirror_and_table(self):
        status, _, err = self.pull("taef2", "-o", self.folder / "out", ZENITH_MIRROR=self.server.url(""))
        self.assertEqual(status, 1)
        self.assertEqual(self.server.requests[0][0], f"/{TAESD}taef2_encoder.pth")
        self.assertIn("10a4e1021e89d7551eaf161352da8dbd0b1aa83872ae28b150c1df1ce2f147b6", err)
        status, _, err = self.pull("taesd", "--from", self.server.url("mine/"), "-o", self.folder / "out")
        self.assertEqual(self.server.requests[-1][0], "/mine/taesd_encoder.pth")
        blob = hashlib.sha1(b"blob %d\0" % len(BODY) + BODY).hexdigest()
        self.assertIn(f"its git blob is {blob}, not 65f85afc58480128926e52086fbf0fdc61c2c9b5", err)

    def test_the_published_file_itself(self):
        real = Path(__file__).resolve().parents[3] / "shared/data/weights/taef2"
        if not (real / "taef2_encoder.pth").exists():
            self.skipTest(f"there is no {real} (reference data outside the repository)")
        self.server.body = (real / "taef2_encoder.pth").read_bytes()
        status, out, err = self.pull("taef2", "--from", self.server.url("x"), "-o", self.folder / "out")
        self.assertIn("taef2_encoder.pth  2.6 MiB, hash is right", out)

    def test_default_folder_is_where_models_are_found(self):
        weights = Path(__file__).resolve().parents[2] / "weights" / "zenith-r.safetensors"
        self.server.body = weights.read_bytes()
        status, _, err = self.pull("own", "--from", self.server.url("w.safetensors"), "-q")
        self.assertEqual((status, err), (0, ""))
        self.assertTrue((self.folder / ".local/share/zenith/models/own.safetensors").exists())
        names = subprocess.run([PROGRAM, "models", "--names"], env=self.environment(), cwd=self.folder, text=True,
                               capture_output=True).stdout
        self.assertIn("own\n", names)

    def test_list_and_wrong_use(self):
        status, out, _ = self.pull("--list")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"taesd +9.5 MiB  MIT +small autoencoder for Stable Diffusion 1 and 2; for encode")
        models = {m["name"]: m for m in json.loads(self.pull("--list", "--json")[1])["models"]}
        for model in models.values():
            for file in model["files"]:
                self.assertRegex(file["url"], "^https://")
                self.assertRegex(file.get("check", "sha256:" + "0" * 64), "^(sha256:[0-9a-f]{64}|git:[0-9a-f]{40})$")
        self.assertEqual(len(models["z-image-turbo"]["files"]), 3)
        for arguments, words in (
            (["taesdx"], "did you mean 'taesdxl'?"),
            ([], "needs the name of a model"),
            (["a", "b", "--from", "http://x/"], "--from is for one model"),
            (["../x", "--from", "http://127.0.0.1:1/a.pth"], "must be a name, not a path"),
            (["x", "--from", "http://127.0.0.1:1/a.sh"], "needs the address of a weights file"),
            (["x", "--from", "ftp://127.0.0.1:1/a.pth"], "an address begins with https:// or http://"),
        ):
            status, _, err = self.pull(*arguments)
            self.assertNotEqual(status, 0)
            self.assertIn(words, err)
        self.assertEqual(self.server.requests, [])


if __name__ == "__main__":
    probe = subprocess.run([PROGRAM, "pull", "x", "--from", "http://127.0.0.1:1/a.pth", "-o", tempfile.gettempdir()],
                           capture_output=True, text=True).stderr
    if "this build cannot fetch files" in probe or "was not found; install" in probe:
        print("skipped:", probe.strip())
        sys.exit(1 if os.environ.get("ZENITH_MUST_RUN") else 77)
    unittest.main(verbosity=2)
