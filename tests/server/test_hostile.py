"""Requests that no friend sends: other hosts and origins, damaged bodies, too much of everything, slow clients."""
import random

from serving import *

tool("makeimage", "photo.png", "40", "30")
tool("makeimage", "large.jpg", "1000", "700")  # takes seconds, unless it is cancelled
weights = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../weights"))
# All bundled weights but the generator, and no program beside it: a damaged request that is good enough makes no image.
os.makedirs(path("models"))
os.makedirs(path("alone"))
for name in os.listdir(weights):
    if name != "zenith-mini":
        os.symlink(os.path.join(weights, name), path("models/" + name))
environment["ZENITH_MODELS"] = path("models")
LONG = {"task": "restore", "files": [base64.b64encode(content("large.jpg")).decode()]}
server = Server("--body", "1M", "--host", "studio.example", "--queue", "3", "--workers", "1", program=shutil.copy(PROGRAM, path("alone")))


def raw(text, read=True):
    """Sends bytes as they are and returns what comes back within a second."""
    s = socket.create_connection(("127.0.0.1", server.port), 1)
    answer = b""
    try:
        s.sendall(text if isinstance(text, bytes) else text.encode())
        while read and (more := s.recv(65536)):
            answer += more
    except OSError:  # closed, or it waits for more
        pass
    s.close()
    return answer


def test_guard():
    port = server.port
    for host, status in ((f"127.0.0.1:{port}", 200), (f"localhost:{port}", 200), ("[::1]", 200), ("studio.example", 200), ("10.1.2.3", 200),
                         ("evil.example", 403), (f"localhost.evil.example:{port}", 403), ("", 403), ("127.0.0.1.evil.example", 403)):
        same(server.ask("GET", "/api/jobs", headers={"Host": host})[0], status, f"Host {host!r}")
    own = f"http://127.0.0.1:{port}"
    for headers, status in (({"Origin": own}, 200), ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
                            ({"Origin": f"http://127.0.0.1:{port + 1}"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
                            ({"Sec-Fetch-Site": "same-origin"}, 200), ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200)):
        same(server.ask("GET", "/healthz", headers=headers)[0], status, str(headers))
    status, _, answer = server.ask("OPTIONS", "/api/jobs", headers={"Origin": "http://evil.example"})
    same((status, answer.getheader("Access-Control-Allow-Origin")), (403, None), "preflight of another page")
    # Not loopback without a key is refused, with one it is not.
    refused = subprocess.run([PROGRAM, "serve", "--listen", "0.0.0.0:0"], env=environment, stderr=subprocess.PIPE)
    same((refused.returncode, b"--api-key" in refused.stderr), (2, True), "0.0.0.0 without a key")


def test_refused_options():
    for words, status, sentence in ((["--listen", "8188"], 2, "--listen needs an address such as 127.0.0.1:8188, not '8188'"),
                                    (["--listen", f"127.0.0.1:{server.port}"], 1, "give another port with --listen"),
                                    (["--listen", "127.0.0.1:0", "--data", "nosuch"], 1, "nosuch: no such folder"),
                                    (["--listen", "127.0.0.1:0", "--models", "nosuch"], 1, "nosuch: no such folder")):
        refused = subprocess.run([PROGRAM, "serve", *words], env=environment, stderr=subprocess.PIPE, text=True, timeout=SLOW)
        assert refused.returncode == status and sentence in refused.stderr, f"{words}: {refused.returncode} {refused.stderr}"


def test_no_generator():
    """The other bundled weights generate nothing: each API says what to do."""
    job = server.json("POST", "/api/jobs?wait=1", {"task": "generate", "prompt": "a fox"})
    for said in (job["error"], server.json("POST", "/v1/images/generations", {"prompt": "a fox"}, expect=404)["error"]["message"],
                 server.json("POST", "/sdapi/v1/txt2img", {"prompt": "a fox"}, expect=404)["error"]["message"]):
        assert "zenith pull z-image-turbo" in said and "''" not in said, said


def test_no_diffusion_autoencoder():
    """The bundled default of edit, interpolate and sample is not installed."""
    bare = Server(env={"ZENITH_MODELS": path("alone")}, program=path("alone/zenith"))
    same(bare.job("sample", [], "failed")["error"], "the task sample needs a model: a diffusion autoencoder", "without a model")
    assert "no model is called 'nosuch'" in bare.job("sample", [], "failed", model="nosuch")["error"]
    bare.process.terminate()
    bare.process.wait(SLOW)


def test_bundled_generator():
    """The model that comes with the program is used if there is no other, with its own settings."""
    whole = Server()
    job = whole.json("POST", "/api/jobs?wait=1", {"task": "generate", "prompt": "a portrait of a man", "options": {"steps": 2, "seed": 1}})
    made = job["facts"]["images"][0]
    same((made["width"], made["height"], made["steps"], made["guidance"], job.get("remarks", [])), (128, 128, 2, 2, []), "bundled generator")
    body = {"prompt": "a portrait of a man", "width": 64, "height": 64, "seed": 1}
    info = json.loads(whole.json("POST", "/sdapi/v1/txt2img", body)["info"])
    same((info["steps"], info["cfg_scale"], "zenith-mini" in info["infotexts"][0]), (20, 3, True), "its settings")
    info = json.loads(whole.json("POST", "/sdapi/v1/txt2img", dict(body, steps=1, cfg_scale=1))["info"])
    same((info["steps"], info["cfg_scale"]), (1, 1), "settings of the client")
    whole.process.terminate()
    whole.process.wait(SLOW)


def test_paths():
    for address in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/runs/..%2f..%2fetc/samples/passwd", "/api/runs/../metrics",
                    "/api/jobs/..", "/api/models/..%2fx/attributes", "//etc/passwd", "/" + "a" * 5000, "/\x01"):
        answer = raw(f"GET {address} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert re.match(rb"HTTP/1\.1 4\d\d", answer) or not answer, (address, answer[:100])
        assert b"root:" not in answer
    for model in ("../weights/zenith-r", weights + "/zenith-r.safetensors", "/etc/passwd", "./zenith-r"):
        job = server.form("/api/jobs?wait=1", [("task", "encode"), ("model", model), ("file", ("p.png", content("photo.png")))])
        assert job["state"] == "failed" and "no model is called" in job["error"], job
    # A name of a file is only shown.
    job = server.form("/api/jobs?wait=1", [("task", "encode"), ("file", ("../../../tmp/evil.png", content("photo.png")))])
    same((job["state"], job["results"][0]["name"]), ("done", "evil.safetensors"), "the name of an upload")


def test_limits():
    same(server.ask("POST", "/api/jobs", b"x" * (1 << 20) + b"x", {"Content-Type": "application/json"})[0], 413, "a large body")
    answer = raw(b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b"x" * 65536 + b"\r\n"
                 + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 20 + b"0\r\n\r\n")
    assert b" 413 " in answer[:30], answer[:100]


def test_bodies_in_memory():
    """A request that waits for its job does not keep its body; what does not fit in memory at the moment is asked for again later."""
    other = Server("--body", "1M", "--workers", "1", "--queue", "40")
    body = json.dumps(LONG).encode()
    body += b" " * (1000000 - len(body))
    head = "POST /api/jobs?wait=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Zenith-Client: {}\r\nContent-Length: {}\r\n\r\n"
    waiting = [socket.create_connection(("127.0.0.1", other.port)) for _ in range(10)]
    for i, s in enumerate(waiting):
        s.sendall(head.format(i, len(body)).encode() + body)
        wait_for("the job", lambda: len(other.json("GET", "/api/jobs")["jobs"]) > i)
    for s in waiting:
        s.close()
    wait_for("their end", lambda: all(j["state"] not in ("queued", "running") for j in other.json("GET", "/api/jobs")["jobs"]))
    slow = []
    def refused():
        slow.append(socket.create_connection(("127.0.0.1", other.port)))
        slow[-1].sendall(head.format(0, 1000000).encode() + b" " * 999000)
        status, text, answer = other.ask("POST", "/api/jobs", b" " * 700000, {"Content-Type": "application/json"})
        assert status in (400, 503), (status, text)
        return status == 503 and b"too many large requests" in text and answer.getheader("Retry-After") == "5"
    wait_for("a refusal", refused)
    for s in slow:
        s.close()
    wait_for("memory", lambda: other.ask("POST", "/api/jobs", b" " * 700000, {"Content-Type": "application/json"})[0] == 400)
    other.process.terminate()
    other.process.wait(SLOW)


def test_pixels_of_latents():
    """A latent is small, its image is not."""
    shape = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 200, 200), }"
    with open(path("large.npy"), "wb") as f:
        f.write(b"\x93NUMPY\x01\0" + (118).to_bytes(2, "little") + shape.ljust(117).encode() + b"\n" + bytes(4 * 4 * 200 * 200))
    small = Server("--pixels", "1")
    error = small.job("decode", ["large.npy"], "failed", model="random:taesd")["error"]
    assert "more pixels than the limit of 1000000" in error, error
    small.process.terminate()
    small.process.wait(SLOW)


def test_damaged():
    """Pieces of good requests in bad order; nothing may kill the server or start a job with what was not sent."""
    chance = random.Random(1)
    mark = b"--m\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n"
    good = mark + content("photo.png") + b"\r\n--m\r\nContent-Disposition: form-data; name=\"task\"\r\n\r\nrestore\r\n--m--\r\n"
    text = json.dumps({"task": "restore", "files": ["data:image/png;base64," + base64.b64encode(content("photo.png")).decode()],
                       "options": {"quality": 5}}).encode()
    addresses = ("/api/jobs", "/api/runs", "/v1/images/generations", "/v1/images/edits", "/sdapi/v1/txt2img", "/sdapi/v1/img2img",
                 "/sdapi/v1/options", "/sdapi/v1/png-info", "/sdapi/v1/extra-single-image")
    c = server.connect()
    for i in range(600):
        body, kind = (good, "multipart/form-data; boundary=m") if i % 2 else (text, "application/json")
        body = bytearray(body[:chance.randrange(len(body))] if i % 3 else body)
        for _ in range(chance.randrange(6)):
            if body:
                body[chance.randrange(min(len(body), 200))] = chance.randrange(256)
        c.request("POST", chance.choice(addresses), bytes(body), {"Content-Type": kind})
        answer = c.getresponse()
        answer.read()
        assert answer.status in (200, 201, 202, 400, 404, 409, 413, 429), (answer.status, bytes(body)[:200])
    c.close()
    for kind in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 300, "text/html", "application/json"):
        same(server.ask("POST", "/api/jobs", b"--\r\n", {"Content-Type": kind})[0], 400, kind)
    for body in (b"[" * 100000, b'{"task":"restore","files":[' + b'"",' * 5000 + b'""]}', b'{"task":"\\u0000"}', b"\xff", b"nul", b"{}", b"[]", b""):
        status = server.ask("POST", "/api/jobs", body, {"Content-Type": "application/json"})[0]
        assert status in (400, 413), (status, body[:40])


def test_raw():
    for text in ("\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "A" * 100000, "GET / HTTP/1.1\r\n" + "X: y\r\n" * 5000 + "\r\n",
                 "POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
                 "POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n"):
        raw(text)
        raw(text, read=False)
    same(server.json("GET", "/healthz")["status"], "ok", "health")


def test_slow_clients():
    """Clients that send a little and wait do not keep others from being served; nor do readers that do not read."""
    connections = lambda: int(re.search(rb"^zenith_connections (\d+)", server.ask("GET", "/metrics")[1], re.M).group(1))
    before = connections()
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    for s in slow:
        s.sendall(b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    same(server.json("GET", "/healthz")["status"], "ok", "health")
    for s in slow:
        s.close()
    wait_for("the connections to close", lambda: connections() <= before)


def test_idle_streams():
    """Many watchers of one job cost little, and all of them see its end."""
    job = server.json("POST", "/api/jobs", LONG, expect=202)
    streams = [socket.create_connection(("127.0.0.1", server.port), SLOW) for _ in range(100)]
    for s in streams:
        s.sendall(f"GET /api/jobs/{job['id']}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    server.json("DELETE", f"/api/jobs/{job['id']}")
    for s in streams:
        text = b""
        while b"event: done" not in text and b"event: cancelled" not in text:
            more = s.recv(65536)
            assert more, text[-300:]
            text += more
        s.close()


def test_queue_is_bounded():
    ids = []
    for i in range(12):
        status, text, answer = server.ask("POST", "/api/jobs", json.dumps(LONG), {"X-Zenith-Client": str(i)})
        if status == 429:
            assert answer.getheader("Retry-After")
            break
        same(status, 202, "job")
        ids.append(json.loads(text)["id"])
    assert 3 <= len(ids) <= 8, len(ids)
    for job in ids:
        server.json("DELETE", f"/api/jobs/{job}")


def test_end():
    server.stop()


main(test_guard, test_refused_options, test_no_generator, test_no_diffusion_autoencoder, test_bundled_generator, test_paths, test_limits, test_bodies_in_memory, test_pixels_of_latents, test_damaged, test_raw, test_slow_clients, test_idle_streams, test_queue_is_bounded, test_end)
