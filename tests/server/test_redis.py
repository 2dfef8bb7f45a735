"""Jobs through Redis: three workers, one killed in the middle of a job, one stopped; cancellation; the program's bytes."""
from serving import *

weights = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../weights")


if not shutil.which("redis-server"):
    skip("redis-server is not installed")
tool("makeimage", "photo.png", "96", "64")
tool("tinymodel", "models/tiny")
os.symlink(os.path.abspath(os.path.join(weights, "zenith-restore.safetensors")), path("models/zenith-restore.safetensors"))
environment["ZENITH_MODELS"] = path("models")
TINY = {"size": "48x32", "steps": 2, "seed": 7}
LONG = {"size": "256x256", "steps": 1000, "seed": 7}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Redis:
    def __init__(self):
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/1"
        self.start()

    def start(self):
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", work],
                                        stdout=subprocess.DEVNULL)
        wait_for("redis-server", lambda: not socket.socket().connect_ex(("127.0.0.1", self.port)))

    def ask(self, *words):
        """One command; the parts of the answer as a list of bytes."""
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            for command in (("SELECT", "1"), words):
                s.sendall(f"*{len(command)}\r\n".encode() + b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in command))
            s.shutdown(socket.SHUT_WR)
            text = b"".join(iter(lambda: s.recv(65536), b""))
        return text[5:].split(b"\r\n")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Worker:
    all = []

    def __init__(self, name):
        self.name = name
        os.makedirs(path("tmp-" + name), exist_ok=True)
        self.process = subprocess.Popen([PROGRAM, "serve", "--worker", "--queue-server", redis.url, "--instance", name, "--workers", "1"],
                                        cwd=work, env=dict(environment, TMPDIR=path("tmp-" + name)), stdout=subprocess.PIPE)
        Worker.all.append(self)
        same(self.process.stdout.readline().decode(), f"zenith serve: a worker of 127.0.0.1:{redis.port}/1\n", "the worker's start")

    def jobs(self):
        """Folders of jobs that it runs."""
        spools = os.listdir(path("tmp-" + self.name))
        return [j for s in spools for j in os.listdir(path(f"tmp-{self.name}/{s}"))]

    def kill(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(path("tmp-" + self.name))
        Worker.all.remove(self)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        same(self.process.wait(SLOW), 0, "the worker's end")
        same(self.jobs(), [], "files that a worker left")
        Worker.all.remove(self)


redis = Redis()
probe = subprocess.run([PROGRAM, "serve", "--queue-server", "redis://127.0.0.1:1"], cwd=work, env=environment, stderr=subprocess.PIPE)
if b"cannot use Redis" in probe.stderr:
    redis.stop()
    skip("this build has no hiredis")
assert b"zenith: the queue server 127.0.0.1:1/0 does not answer: " in probe.stderr, probe.stderr
server = Server("--queue-server", redis.url, "--instance", "front")
workers = [Worker(name) for name in ("w1", "w2", "w3")]


def start(**options):
    body = {"task": "generate", "prompt": "fox", "options": dict(LONG, **options)}
    return server.json("POST", "/api/jobs", body, expect=202)


def state(job):
    return server.json("GET", f"/api/jobs/{job['id']}")["state"]


def busy():
    return [w for w in workers if w.jobs()]


def nothing_left():
    """What a worker still tells of a job that has ended is forgotten by itself, after a minute."""
    keys = [key.decode() for key in redis.ask("KEYS", "*") if key.startswith(b"zenith:")]
    stay = [key for key in keys if redis.ask("TTL", key)[0] == b":-1"]
    return stay == ["zenith:jobs"] and redis.ask("XLEN", "zenith:jobs")[0] == b":0"


def test_bytes():
    job = server.job("restore", ["photo.png"], options={"format": "webp", "lossless": True, "strength": 0.4})
    program("restore", "photo.png", "-o", "r.webp", "--lossless", "--strength", "0.4")
    same(server.result(job), content("r.webp"), "restore")
    same((job["results"][0]["name"], job["results"][0]["width"]), ("photo.webp", 96), "the result's name and size")
    program("generate", "a red fox", "-m", "tiny", "--size", "48x32", "--steps", "2", "--seed", "7", "--count", "2", "-o", "g.png")
    job = server.job("generate", prompt="a red fox", options=dict(TINY, count=2))
    same((server.result(job), server.result(job, 1)), (content("g-1.png"), content("g-2.png")), "generate")
    same((job["facts"]["seed"], job["facts"]["prompt"], len(job["facts"]["images"])), (7, "a red fox", 2), "facts")
    answer = server.json("POST", "/v1/images/generations", {"prompt": "a red fox", "size": "48x32", "steps": 2, "seed": 7})
    same(base64.b64decode(answer["data"][0]["b64_json"]), content("g-1.png"), "OpenAI")
    error = server.job("restore", ["models/tiny/model_index.json"] if os.path.exists(path("models/tiny/model_index.json")) else ["log"],
                       "failed")["error"]
    assert error and work not in error, error
    assert "no model is called" in server.job("restore", ["photo.png"], "failed", model="none")["error"]
    wait_for("an empty queue", nothing_left)


def test_events_and_cancel():
    job = start(preview=True)
    names, asked = [], False
    for name, _ in server.events(f"/api/jobs/{job['id']}/events"):
        names.append(name)
        if {"progress", "preview"} <= set(names) and not asked:
            asked = bool(server.json("DELETE", f"/api/jobs/{job['id']}"))
    same(names[-1], "cancelled", "the last event")
    wait_for("the worker to stop", lambda: not busy())
    wait_for("an empty queue", nothing_left)


def test_killed_worker():
    """The job of a killed worker runs again, once, and gives the program's bytes."""
    steps = {"size": "128x128", "steps": 1000}  # long enough to be found at work by a quick machine
    program("generate", "fox", "-m", "tiny", "--size", "128x128", "--steps", "1000", "--seed", "7", "-o", "k.png")
    job = start(**steps)
    wait_for("progress", lambda: server.json("GET", f"/api/jobs/{job['id']}")["progress"]["step"] > 2)
    victim = busy()[0]
    same(len(busy()), 1, "workers that run the job")
    workers.remove(victim)
    victim.kill()
    starts = set()
    def ended():
        starts.update(w.name + j for w in workers for j in w.jobs())
        return state(job) not in ("queued", "running")
    wait_for("the second attempt", ended)
    job = server.json("GET", f"/api/jobs/{job['id']}")
    same((job["state"], job["error"]), ("done", None), "the job of a killed worker")
    same(server.result(job), content("k.png"), "its result")
    same(len(starts), 1, "attempts after the first")
    wait_for("an empty queue", nothing_left)


def test_stopped_worker():
    """A worker that is stopped gives its job back at once."""
    job = start(steps=1000, size="256x256")
    wait_for("the start", lambda: busy() and state(job) == "running")
    leaving = busy()[0]
    workers.remove(leaving)
    def left():  # the second signal counts; two at once may arrive as one
        leaving.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        return leaving.process.poll() is not None
    wait_for("its end", left)
    leaving.stop()
    wait_for("another worker", busy)
    server.json("DELETE", f"/api/jobs/{job['id']}")
    wait_for("the cancellation", lambda: state(job) == "cancelled" and not busy())


def test_forgetful_queue():
    """A queue server that was restarted has forgotten everything: the job is sent again."""
    job = start(steps=30, size="128x128")
    wait_for("the start", lambda: state(job) == "running")
    redis.stop()
    redis.start()
    wait_for("the end", lambda: state(job) == "done")
    server.job("generate", prompt="a red fox", options=TINY)


def test_end():
    for w in list(workers):
        w.stop()
    server.stop()


try:
    main(test_bytes, test_events_and_cancel, test_killed_worker, test_stopped_worker, test_forgetful_queue, test_end)
finally:
    for w in Worker.all:
        w.process.kill()
        w.process.wait()
    redis.stop()
