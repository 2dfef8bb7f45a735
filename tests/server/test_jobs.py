"""Jobs: every task's bytes are the program's, events, cancellation, dropped connections, limits, the end."""
import select

from serving import *

weights = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../weights")
tool("makeimage", "photo.png", "96", "64")
tool("makeimage", "other.jpg", "70", "50")
tool("tinymodel", "models/tiny")
for name in ("zenith-r", "zenith-restore", "lpips-squeeze"):
    os.symlink(os.path.abspath(os.path.join(weights, name + ".safetensors")), path(f"models/{name}.safetensors"))
environment["ZENITH_MODELS"] = path("models")
server = Server("--per-client", "4", "--pixels", "1")
TINY = {"size": "48x32", "steps": 2, "seed": 7}


def test_bytes():
    job = server.job("restore", ["photo.png", "other.jpg"], options={"format": "webp", "lossless": True})
    program("restore", "photo.png", "-o", "r.webp", "--lossless")
    program("restore", "other.jpg", "-o", "r2.webp", "--lossless")
    same((server.result(job), server.result(job, 1)), (content("r.webp"), content("r2.webp")), "restore")
    same(job["results"][0]["name"], "photo.webp", "name")
    job = server.job("restore", ["photo.png"], options={"strength": 0.4})
    program("restore", "photo.png", "-o", "s.png", "--strength", "0.4")
    same(server.result(job), content("s.png"), "restore at a strength")

    job = server.job("encode", ["photo.png"])
    program("encode", "photo.png", "-o", "z.safetensors")
    same(server.result(job), content("z.safetensors"), "encode")
    job = server.job("decode", ["z.safetensors"], options={"bits": 16})
    program("decode", "z.safetensors", "-o", "d.png", "--bits", "16")
    same(server.result(job), content("d.png"), "decode")

    job = server.job("reconstruct", ["other.jpg"], model="zenith-r", options={"compare": True})
    program("reconstruct", "other.jpg", "-o", "c.png", "--compare")
    same(server.result(job), content("c.png"), "reconstruct")
    facts = json.loads(run(PROGRAM, "reconstruct", "other.jpg", "-o", "c2.png", "--json"))
    same({k: job["facts"][k] for k in ("psnr", "ssim", "mse")}, {k: facts[k] for k in ("psnr", "ssim", "mse")}, "facts")
    facts = json.loads(run(PROGRAM, "compare", "photo.png", "d.png", "--json"))
    job = server.job("compare", ["photo.png", "d.png"])
    same({k: job["facts"][k] for k in facts}, facts, "compare")

    job = server.job("generate", prompt="a red fox", options=dict(TINY, count=2))
    program("generate", "a red fox", "-m", "tiny", "--size", "48x32", "--steps", "2", "--seed", "7", "--count", "2", "-o", "g.png")
    same((server.result(job), server.result(job, 1)), (content("g-1.png"), content("g-2.png")), "generate")
    job = server.job("generate", prompt="a red fox", options=dict(TINY, count=3, batch=2))
    made = [server.result(job, i) for i in range(3)]
    same([made[0], made[1]], [content("g-1.png"), content("g-2.png")], "generate two at once")
    same([image["seed"] for image in job["facts"]["images"]], [7, 8, 9], "seeds of images made at once")
    job = server.job("generate", ["photo.png"], model="tiny", prompt="a fox", options={"steps": 4, "seed": 1, "strength": 0.5})
    program("generate", "a fox", "-m", "tiny", "--image", "photo.png", "--steps", "4", "--seed", "1", "--strength", "0.5", "-o", "i.png")
    same(server.result(job), content("i.png"), "generate from an image")


def test_diffusion_and_video():
    os.makedirs(path("pictures"))
    for n in range(4):
        tool("makeimage", f"pictures/{n}.png", "64", "64", str(n))
    with open(path("small.yaml"), "w") as f:
        f.write("batch: 2\nsteps: 1\nwarmup: 0\nlr: 1e-2\nema: 0\nheld_out: 0\nmodel: diffae-celeba64\ntask: diffuse\nwidth: 2\n"
                "latent: 16\nsize: 64\n")
    program("train", "small.yaml", "--data", "pictures", "-o", "models/small")
    few = ["-m", "small", "--steps", "2", "--seed", "3"]
    job = server.job("interpolate", ["photo.png", "other.jpg"], model="small", options={"steps": 2, "seed": 3, "encode_steps": 2, "frames": 2})
    program("interpolate", "photo.png", "other.jpg", *few, "--encode-steps", "2", "--frames", "2", "-o", "between/")
    same([server.result(job, i) for i in range(2)], [content("between/0001.png"), content("between/0002.png")], "interpolate")
    job = server.job("reconstruct", ["photo.png"], model="small", options={"steps": 2, "seed": 3, "random-noise": True})
    program("reconstruct", "photo.png", *few, "--random-noise", "-o", "diffused.png")
    same(server.result(job), content("diffused.png"), "reconstruct by diffusion")
    # Without a model the program's usual one.
    os.rename(path("models/small"), path("models/diffae-faces"))
    job = server.job("interpolate", ["photo.png", "other.jpg"], options={"steps": 2, "seed": 3, "encode_steps": 2, "frames": 2})
    same([server.result(job, i) for i in range(2)], [content("between/0001.png"), content("between/0002.png")], "interpolate without a model")
    os.rename(path("models/diffae-faces"), path("models/small"))
    for task, files, options in (("edit", ["photo.png"], {"attribute": "Smiling"}), ("sample", [], {})):
        assert "has no" in server.job(task, files, "failed", model="small", options=options)["error"]

    # A classifier in a file of its own, by name.
    with open(path("classifier.yaml"), "w") as f:
        f.write("batch: 2\nsteps: 1\nwarmup: 0\nlr: 1e-2\nema: 0\nheld_out: 0\nmodel: diffae-celeba64\ntask: classify\n")
    with open(path("labels.csv"), "w") as f:
        f.write("file,Smiling,Young\n0.png,1,0\n1.png,0,1\n2.png,1,1\n3.png,0,0\n")
    program("train", "classifier.yaml", "--from", "models/small", "--labels", "labels.csv", "--data", "pictures", "-o", "models/judge")
    same(server.json("GET", "/api/models/small/attributes?classifier=judge")["attributes"], ["Smiling", "Young"], "attributes")
    job = server.job("edit", ["photo.png"], model="small", options={"steps": 2, "seed": 3, "encode_steps": 2, "attribute": "Smiling", "classifier": "judge"})
    program("edit", "photo.png", *few, "--encode-steps", "2", "--attribute", "Smiling", "--classifier", "models/judge", "-o", "smile.png")
    same(server.result(job), content("smile.png"), "edit with a classifier of its own")
    job = server.job("edit", ["photo.png"], "failed", model="small", options={"attribute": "Old", "classifier": "judge"})
    same(job["error"], "there is no attribute 'Old': the model has Smiling, Young", "an unknown attribute")
    imagined_edits(few)
    for name in ("none", path("models/judge"), "../models/judge", "run:../models/judge"):
        assert "no weights are called" in server.job("edit", ["photo.png"], "failed", model="small", options={"attribute": "Smiling", "classifier": name})["error"]

    job = server.job("clip", ["photo.png"] * 5, model="random:taew2_1")
    program("encode", "--clip", *["photo.png"] * 5, "-m", "random:taew2_1", "-o", "clip.safetensors")
    same(server.result(job), content("clip.safetensors"), "clip to a latent")
    job = server.job("clip", ["clip.safetensors"], model="random:taew2_1", options={"to": "frames"})
    program("decode", "clip.safetensors", "-m", "random:taew2_1", "-o", "frame.png")
    same(server.result(job, 1), content("frame_0002.png"), "a frame of a clip")


def imagined_edits(few):
    """With a latent net in a file of its own, in both directions; the facts are the program's."""
    with open(path("net.yaml"), "w") as f:
        f.write("batch: 2\nsteps: 1\nwarmup: 0\nlr: 1e-2\nema: 0\nheld_out: 0\nmodel: diffae-celeba64\ntask: imagine\nwidth: 32\n")
    program("train", "net.yaml", "--from", "models/small", "--data", "pictures", "-o", "models/net")
    options = {"steps": 2, "seed": 3, "encode_steps": 2, "attribute": "Smiling", "classifier": "judge", "imagine": True, "amount": "-0.5,0,1"}
    job = server.job("edit", ["photo.png"], model="small", options=dict(options, latent="net"))
    facts = json.loads(run(PROGRAM, "edit", "photo.png", *few, "--encode-steps", "2", "--attribute", "Smiling", "--classifier", "models/judge", "--latent", "models/net",
                           "--imagine", "--amount=-0.5,0,1", "-o", "imagined/", "--json"))
    same([server.result(job, i) for i in range(3)], [content(f"imagined/{i}.png") for i in ("0001", "0002", "0003")], "edit --imagine")
    names = ("attribute", "way", "amounts", "scores", "condition_scores")
    same({k: job["facts"].get(k) for k in names}, {k: facts[k] for k in names}, "facts of edit --imagine")
    options.pop("amount")
    job = server.job("edit", ["photo.png"], model="small", options=dict(options, latent="net"))
    same((server.result(job), job["facts"]["amounts"]), (content("imagined/0003.png"), [1]), "the usual amount gets there")
    error = server.job("edit", ["photo.png"], "failed", model="small", options=options)["error"]
    same(error, "the model diffae-custom has no latent net, which imagine needs; name its weights as latent", "without a latent net")


def test_films():
    """An image autoencoder and a restorer take a video frame by frame; so does a video autoencoder, in its groups."""
    job = server.job("clip", ["photo.png"] * 3, model="zenith-r")
    program("encode", "--clip", *["photo.png"] * 3, "-m", "zenith-r", "-o", "still.safetensors")
    same(server.result(job), content("still.safetensors"), "clip by an image autoencoder")
    try:
        program("decode", "still.safetensors", "--rate", "10", "-o", "film.mp4")
    except AssertionError:
        print("without videos: this build cannot write them")
        return
    for model in ("zenith-r", "random:taew2_1"):
        job = server.job("clip", ["film.mp4"], model=model, options={"to": "video"})
        program("reconstruct", "film.mp4", "-m", model, "-o", "again.mp4")
        same(server.result(job), content("again.mp4"), f"a video through {model}")
        same((job["facts"]["frames"], job["facts"]["rate"], job["results"][0]["name"]), (3, 10, "film.mp4"), "facts")
    job = server.job("restore", ["film.mp4"])
    program("restore", "film.mp4", "-o", "clean.mp4")
    same(server.result(job), content("clean.mp4"), "a restored video")
    assert "for images" in server.job("restore", ["film.mp4"], "failed", reference=("photo.png", content("photo.png")))["error"]
    for task, name, fields in (("restore", "film.mp4", {}), ("clip", "film.mp4", {"model": "zenith-r"}), ("clip", "still.safetensors", {"model": "zenith-r"})):
        for option in ({"quality": 50}, {"lossless": True}):
            to = {"to": "video"} if task == "clip" else {}
            error = server.job(task, [name], "failed", options=dict(option, **to), **fields)["error"]
            same(error, f"{list(option)[0]} is for images: the quality of videos cannot be set", f"{option} for {task} of {name}")
    job = server.job("restore", ["photo.png", "film.mp4"], options={"format": "jpeg", "quality": 50})
    same([r["name"] for r in job["results"]], ["photo.jpg", "film.mp4"], "quality for the image beside a video")
    cut_film()
    both_parts_of_a_video_share_the_memory()
    tool("makeimage", "wide.png", "1600", "1200")
    program("encode", "--clip", "wide.png", "-m", "zenith-r", "-o", "wide.safetensors")
    program("decode", "wide.safetensors", "-o", "wide.mp4")
    assert "limit of" in server.job("clip", ["wide.mp4"], "failed", model="zenith-r", options={"to": "video"})["error"]


def cut_film():
    """The images that are left are used, and a remark says how much is missing."""
    for n in range(8):
        tool("makeimage", f"film{n}.png", "96", "64", str(n))
    program("encode", "--clip", *[f"film{n}.png" for n in range(8)], "-m", "zenith-r", "-o", "eight.safetensors")
    program("decode", "eight.safetensors", "-m", "zenith-r", "--rate", "1", "-o", "whole.mkv")
    program("decode", "eight.safetensors", "-m", "zenith-r", "--rate", "1", "-o", "lost.mp4")
    film = bytearray(content("lost.mp4"))
    images = film.index(b"mdat") + 4
    size = int.from_bytes(film[images - 8:images - 4], "big") - 8
    film[images:images + size] = b"\xff" * size
    with open(path("lost.mp4"), "wb") as f:
        f.write(film)
    for to in ("video", "latent"):
        error = server.job("clip", ["lost.mp4"], "failed", model="zenith-r", options={"to": to})["error"]
        same(error, "lost.mp4: none of its 8 frames could be decoded", "a video without a good image")
    with open(path("cut.mkv"), "wb") as f:
        f.write(content("whole.mkv")[: len(content("whole.mkv")) * 2 // 3])
    for to in ("video", "latent"):
        for name, count in (("whole.mkv", 0), ("cut.mkv", 1)):
            remarks = server.job("clip", [name], model="zenith-r", options={"to": to})["remarks"]
            same(len([r for r in remarks if r.startswith(f"{name}: the file ends ")]), count, f"remarks on {name}: {remarks}")


def both_parts_of_a_video_share_the_memory():
    """The encoder leaves the decoder what it needs: the least that a job names is enough. A job has half of the memory."""
    for n in range(5):
        tool("makeimage", f"large{n}.png", "320", "192", str(n))
    program("encode", "--clip", *[f"large{n}.png" for n in range(5)], "-m", "zenith-r", "-o", "large.safetensors")
    program("decode", "large.safetensors", "-m", "zenith-r", "--rate", "10", "-o", "large.mp4")
    mib = 128
    for expect in ("failed", "done"):
        small = Server("--memory", f"{2 * mib}M", "--workers", "1")
        job = small.job("clip", ["large.mp4"], expect, model="random:taew2_1", options={"to": "video"})
        small.process.terminate()
        if expect == "failed":
            mib = int(re.search(r"the least is (\d+) MiB", job["error"]).group(1))


def test_json_inputs():
    url = "data:image/png;base64," + base64.b64encode(content("photo.png")).decode()
    for given in (url, url.split(",")[1], {"name": "../../x/photo.png", "data": url}):
        job = server.json("POST", "/api/jobs?wait=1", {"task": "restore", "files": [given]})
        same(job["state"], "done", "restore")
    same(job["results"][0]["name"], "photo.png", "a name has no folders")


def test_upscale():
    job = server.job("upscale", ["photo.png"], model="zenith-restore", options={"scale": 4})
    program("upscale", "photo.png", "-m", "zenith-restore", "--scale", "4", "-o", "u.png")
    same(server.result(job), content("u.png"), "upscale")
    same(job["remarks"], ["zenith-restore was trained to restore photos, not to enlarge them; zenith-upscale was"], "a restorer")
    tool("makeimage", "wide.png", "5000", "2")
    error = server.job("upscale", ["wide.png"], "failed", model="zenith-restore", options={"scale": 4, "format": "webp"})["error"]
    assert "16383 pixels" in error, error
    error = server.job("generate", "", "failed", prompt="fox", options={"size": "16384x16", "steps": 1, "format": "webp"})["error"]
    assert "16383 pixels" in error, error
    error = server.job("decode", ["z.safetensors"], "failed", options={"bits": 16, "format": "jpg"})["error"]
    assert "16 bits" in error, error


def test_profile():
    facts = server.job("profile", model="zenith-r", options={"part": "encode", "size": "64", "runs": 1})["facts"]
    assert facts["part"] == "encode" and facts["peak_gflops"] > 0 and facts["bandwidth"] > 0, facts
    assert "cpu_ms" not in facts, "the CPU time of the process has that of other jobs in it"
    assert len(facts["layers"]) > 5 and all(layer["ms"] >= 0 and layer["name"] for layer in facts["layers"]), facts
    assert "scores images" in server.job("profile", model="lpips-squeeze", expect="failed")["error"]


def test_events():
    job = server.json("POST", "/api/jobs", {"task": "generate", "prompt": "fox", "options": dict(TINY, steps=300, preview=True)}, expect=202)
    names = [name for name, _ in server.events(f"/api/jobs/{job['id']}/events")]
    same(names[-1], "done", "last event")
    assert "progress" in names and "preview" in names, names
    status, bytes_, _ = server.ask("GET", f"/api/jobs/{job['id']}/preview")
    same((status, bytes_[:2]), (200, b"\xff\xd8"), "preview")
    same([name for name, _ in server.events(f"/api/jobs/{job['id']}/events")], ["preview", "done"], "events afterwards")
    assert any(j["id"] == job["id"] for j in server.json("GET", "/api/jobs")["jobs"])


def long_job(client="a", expect=202):
    return server.json("POST", "/api/jobs", {"task": "generate", "prompt": "fox", "options": dict(TINY, steps=1000, size=256)},
                       {"X-Zenith-Client": client}, expect)


def state(job):
    return server.json("GET", f"/api/jobs/{job['id']}")["state"]


def test_cancel_and_turns():
    running = [long_job(), long_job()]
    for job in running:
        wait_for("the start", lambda: state(job) == "running")
    waiting = [long_job("a") for _ in range(4)]
    same(long_job("a", 429)["error"]["type"], "limit_error", "a client's limit")
    other = long_job("b")
    same(other["position"], 0, "the other client is next")
    same([server.json("GET", f"/api/jobs/{j['id']}")["position"] for j in waiting], [1, 2, 3, 4], "turns")
    # A queued job ends at once, a running one within a step.
    for job in waiting:
        same(server.json("DELETE", f"/api/jobs/{job['id']}")["state"], "cancelled", "cancelled while queued")
    started = time.time()
    server.json("DELETE", f"/api/jobs/{running[0]['id']}")
    wait_for("the cancellation", lambda: state(running[0]) == "cancelled")
    wait_for("the other client's turn", lambda: state(other) == "running")
    same([name for name, _ in server.events(f"/api/jobs/{running[0]['id']}/events")], ["cancelled"], "event")
    same(server.ask("GET", f"/api/jobs/{running[0]['id']}/result")[0], 409, "no result")
    for job in (running[1], other):
        server.json("DELETE", f"/api/jobs/{job['id']}")
        wait_for("the cancellation", lambda: state(job) == "cancelled")


def test_dropped_connection():
    for address, body in (("/api/jobs?wait=1", {"task": "generate", "prompt": "fox", "options": dict(TINY, steps=1000, size=256)}),
                          ("/v1/images/generations", {"prompt": "fox", "size": "256x256", "steps": 1000, "stream": True})):
        before = {j["id"] for j in server.json("GET", "/api/jobs")["jobs"]}
        c = server.connect()
        c.request("POST", address, json.dumps(body), {"Content-Type": "application/json"})
        find = lambda: [j for j in server.json("GET", "/api/jobs")["jobs"] if j["id"] not in before and j["state"] == "running"]
        job = wait_for("the start", find)[0]
        c.sock.close() if c.sock else None
        c.close()
        wait_for("the cancellation by a dropped connection", lambda: state(job) == "cancelled")


def test_errors():
    for fields, words in (({"task": "fly"}, "task must be one of"),
                          ({"task": "restore"}, "needs 1 to"),
                          ({"task": "restore", "quality": 300}, "quality must be a number from 1 to 100"),
                          ({"task": "restore", "output": "/tmp/x"}, "has no option 'output'"),
                          ({"task": "encode", "reference": "x", "files": ["AAAA"]}, "reference: not a file"),
                          ({"task": "restore", "files": ["!"]}, "not a file in base64")):
        error = server.json("POST", "/api/jobs", fields, expect=400)["error"]
        assert words in error["message"], error
    for task, files, model, words in (("restore", ["z.safetensors"], "", "z.safetensors"),
                                      ("restore", ["photo.png"], "zenith-r", "does not restore"),
                                      ("encode", ["photo.png"], "/etc/passwd", "no model is called"),
                                      ("encode", ["photo.png"], "photo.png", "no model is called"),
                                      ("decode", ["photo.png"], "", "photo.png"),
                                      ("edit", ["photo.png"], "zenith-r", "")):
        error = server.job(task, files, "failed", model=model, options={"attribute": "x"} if task == "edit" else {})["error"]
        assert words in error and work not in error.replace(path("models"), ""), error
    tool("makeimage", "large.png", "1200", "900")
    assert "pixels" in server.job("restore", ["large.png"], "failed")["error"]
    same(server.ask("GET", "/api/jobs/nothing")[0], 404, "no such job")
    same(server.ask("PUT", "/api/jobs")[0], 405, "no such method")


def test_system():
    same(server.json("GET", "/healthz")["status"], "ok", "health")
    models = {m["name"]: m for m in server.json("GET", "/api/models")["models"]}
    same((models["tiny"]["kind"], models["zenith-restore"]["loaded"], models["zenith-r"]["tasks"]),
         ("generator", True, ["encode", "decode", "reconstruct", "clip"]), "models")
    for name, kind, task in ("zenith-restore", "restorer", "restore"), ("zenith-upscale", "upscaler", "upscale"):
        same((models[name]["kind"], models[name]["tasks"]), (kind, [task]), name)
    tiny = models["tiny"]
    assert tiny["bytes"] == sum(part["bytes"] for part in tiny["parts"]) > 0, tiny
    metrics = server.ask("GET", "/metrics")[1].decode()
    assert re.search(r'^zenith_jobs_total\{state="done"\} [1-9]', metrics, re.M), metrics
    for line in metrics.splitlines():
        assert re.match(r"^(# (HELP|TYPE) zenith_\w+ .+|zenith_\w+(\{\w+=\"\w+\"\})? [-+.e0-9]+)$", line), line
    document = server.json("GET", "/openapi.json")
    same(document["openapi"][:2], "3.", "OpenAPI")
    # Every GET without a parameter is there and answers with what the document says.
    for address, methods in document["paths"].items():
        if "get" in methods and "{" not in address:
            status, text, answer = server.ask("GET", address)
            kind = next(iter(methods["get"]["responses"]["200"]["content"]))
            same((status, answer.getheader("Content-Type").split(";")[0]), (200, kind), address)
            if kind == "application/json":
                schema = methods["get"]["responses"]["200"]["content"][kind]["schema"]
                for key in schema.get("required", []):
                    assert key in json.loads(text), (address, key)
        for method in methods:
            if "{" in address:
                filled = re.sub(r"\{\w+\}", "none", address)
                same(server.ask(method.upper(), filled, b"{}")[0], 404, f"{method} {filled}")
    # The page is in the program, with a policy.
    status, text, answer = server.ask("GET", "/")
    same((status, answer.getheader("Content-Type")), (200, "text/html; charset=utf-8"), "page")
    assert "default-src 'self'" in answer.getheader("Content-Security-Policy")


def test_first_event_is_quick():
    job = long_job()
    started = time.time()
    next(server.events(f"/api/jobs/{job['id']}/events"))
    print(f"  first event after {1000 * (time.time() - started):.0f} ms")
    server.json("DELETE", f"/api/jobs/{job['id']}")
    wait_for("the cancellation", lambda: state(job) == "cancelled")


def test_second_interrupt():
    """On a terminal the first Ctrl-C says how long jobs may take; the second one cancels them."""
    terminal, side = os.openpty()
    other = Server("--grace", "600", stderr=side)
    job = other.json("POST", "/api/jobs", {"task": "generate", "prompt": "fox", "options": dict(TINY, steps=1000, size=256)}, expect=202)
    wait_for("the start", lambda: other.json("GET", f"/api/jobs/{job['id']}")["state"] == "running")
    other.process.send_signal(signal.SIGINT)
    assert select.select([terminal], [], [], SLOW)[0], "no remark"
    same(os.read(terminal, 1000), b"zenith: jobs may end within 600 s; Ctrl-C again cancels them\r\n", "the remark")
    other.process.send_signal(signal.SIGINT)
    same(other.process.wait(SLOW), 0, "the end")
    os.close(terminal)
    os.close(side)


def test_grace_ends_with_an_answer():
    other, answers = Server("--grace", "1"), []
    body = {"task": "generate", "prompt": "fox", "options": dict(TINY, steps=1000, size=256)}
    ask = threading.Thread(target=lambda: answers.append(other.json("POST", "/api/jobs?wait=1", body)))
    ask.start()
    wait_for("the start", lambda: [j for j in other.json("GET", "/api/jobs")["jobs"] if j["state"] == "running"])
    other.process.send_signal(signal.SIGTERM)
    ask.join()
    same(answers[0]["state"], "cancelled", "the job of a client that waits")
    same(other.process.wait(SLOW), 0, "the end")


def test_end():
    """Finishes what was promised: a job that was queued before the signal is answered."""
    answers = []
    before = {j["id"] for j in server.json("GET", "/api/jobs")["jobs"]}
    ask = threading.Thread(target=lambda: answers.append(server.job("generate", prompt="fox", options=dict(TINY, steps=20))))
    ask.start()
    wait_for("the job", lambda: [j for j in server.json("GET", "/api/jobs")["jobs"] if j["id"] not in before])
    server.process.send_signal(signal.SIGTERM)
    ask.join()
    same(answers[0]["state"], "done", "a job during the end")
    status = server.process.wait(SLOW)
    same((status, server.messages()), (0, ""), "the server's end")
    same(os.listdir(path("tmp")), [], "files of jobs that are left")


main(test_bytes, test_diffusion_and_video, test_films, test_json_inputs, test_upscale, test_profile, test_events, test_cancel_and_turns, test_dropped_connection, test_errors,
     test_system, test_first_event_is_quick, test_second_interrupt, test_grace_ends_with_an_answer, test_end)
