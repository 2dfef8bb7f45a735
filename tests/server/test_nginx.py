"""Two instances behind a real nginx, with the configuration that docs/server.md shows: requests about a job reach its instance."""
from serving import *

nginx = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
if not nginx:
    skip("nginx is not installed")
tool("makeimage", "photo.png", "48", "32")
tool("tinymodel", "models/tiny")
environment["ZENITH_MODELS"] = path("models")
for name in "ab":
    os.makedirs(path("tmp-" + name))
instances = {name: Server("--instance", name, "--host", "images.example.org", env={"TMPDIR": path("tmp-" + name)}) for name in "ab"}
TINY = {"size": "48x32", "steps": 2, "seed": 7}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Balancer(Server):
    """nginx with the example of the documentation; only the ports are changed, and where it writes."""

    def __init__(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/server.md")) as f:
            example = re.search(r"```nginx\n(.*?)```", f.read(), re.S).group(1)
        self.port = free_port()
        for old, new in (("127.0.0.1:8188", f"127.0.0.1:{instances['a'].port}"), ("127.0.0.1:8189", f"127.0.0.1:{instances['b'].port}"),
                         ("listen 80;", f"listen 127.0.0.1:{self.port};")):
            assert old in example, f"the example of docs/server.md has no '{old}'"
            example = example.replace(old, new)
        folder = path("nginx")
        os.makedirs(folder)
        kinds = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(path("nginx.conf"), "w") as f:
            f.write(f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;\n"
                    f"events {{ worker_connections 256; }}\nhttp {{\naccess_log off;\n{kinds}{example}}}\n")
        self.log = open(path("nginx.log"), "w+b")
        self.process = subprocess.Popen([nginx, "-p", folder, "-c", path("nginx.conf"), "-e", f"{folder}/error.log"],
                                        stdout=self.log, stderr=self.log)
        Server.all.append(self)
        wait_for("nginx", lambda: self.process.poll() is not None or not socket.socket().connect_ex(("127.0.0.1", self.port)))
        assert self.process.poll() is None, "nginx does not start: " + self.messages()

    def ask(self, method, address, body=None, headers=None):
        return super().ask(method, address, body, dict(headers or {}, Host="images.example.org"))


balancer = Balancer()


def test_jobs():
    jobs = [balancer.json("POST", "/api/jobs", {"task": "generate", "prompt": "fox", "options": TINY}, expect=202) for _ in range(6)]
    same({job["id"].split("-")[0] for job in jobs}, {"a", "b"}, "instances that take jobs")
    program("generate", "fox", "-m", "tiny", "--size", "48x32", "--steps", "2", "--seed", "7", "-o", "g.png")
    for job in jobs:
        about = lambda: balancer.json("GET", f"/api/jobs/{job['id']}")
        wait_for("the job", lambda: about()["state"] == "done")
        done = about()
        same(balancer.result(done), content("g.png"), "a result through nginx")
        assert instances[job["id"][0]].json("GET", f"/api/jobs/{job['id']}")["state"] == "done"


def test_uploads_and_events():
    job = balancer.form("/api/jobs?wait=1", [("task", "generate"), ("prompt", "fox"), ("options", json.dumps(dict(steps=2, seed=7))),
                                             ("file", ("photo.png", content("photo.png")))])
    same(job["state"], "done", "an upload through nginx")
    job = balancer.json("POST", "/api/jobs", {"task": "generate", "prompt": "fox", "options": dict(TINY, size="256x256", steps=1000)}, expect=202)
    c = balancer.connect()
    c.request("GET", f"/api/jobs/{job['id']}/events", headers={"Host": "images.example.org"})
    answer = c.getresponse()
    same((answer.status, answer.readline()[:7]), (200, b"event: "), "events are not held back")
    same(balancer.json("DELETE", f"/api/jobs/{job['id']}")["id"], job["id"], "cancel")
    assert b"event: cancelled" in answer.read()
    c.close()


def test_one_instance_down():
    """The other one goes on."""
    instances["a"].stop()
    for _ in range(3):
        job = balancer.form("/api/jobs?wait=1", [("task", "generate"), ("prompt", "fox"), ("options", json.dumps(TINY))])
        same((job["id"][0], job["state"]), ("b", "done"), "a job with one instance down")
    instances["b"].stop()


main(test_jobs, test_uploads_and_events, test_one_instance_down)
