"""Training runs: start, watch, stop, resume; a stopped server saves its run, and a new one knows it."""
from serving import *

os.makedirs(path("photos"))
for n in range(8):
    tool("makeimage", f"photos/{n}.png", "40", "4" + str(n), str(n))
os.makedirs(path("gone"))
options = ["--data", "photos", "--data", "gone", "--runs", "runs"]
SMALL = ["batch=2", "size=16", "warmup=1", "held_out=30", "eval_every=2"]
server = Server(*options)


def state(name):
    return server.json("GET", f"/api/runs/{name}")


def test_start():
    same(server.json("GET", "/api/data"), {"folders": [{"name": "photos"}, {"name": "gone"}]}, "data")
    os.rmdir(path("gone"))
    recipe = server.json("GET", "/api/recipes")["recipes"][0]["name"]
    for fields, status, words in (({}, 400, "recipe"), ({"recipe": "../x.yaml"}, 400, "recipe"), ({"recipe": recipe}, 400, "data is missing"),
                                  ({"recipe": recipe, "data": "/etc"}, 404, "no folder"), ({"recipe": recipe, "data": "photos", "name": "../x"}, 400, "letters"),
                                  ({"recipe": recipe, "data": "photos", "settings": ["labels=/etc/passwd"]}, 400, "file"),
                                  ({"recipe": recipe, "data": "photos", "settings": {"labels": "/etc/passwd"}}, 400, "file"),
                                  ({"recipe": recipe, "data": "photos", "settings": {"batch": [2]}}, 400, "the setting batch must be"),
                                  ({"recipe": recipe, "data": "photos", "settings": {"batsch": 2}}, 400, "batsch"),
                                  ({"recipe": recipe, "data": "photos", "settings": {"batch": 0}}, 400, "batch must be a number from 1 to 4096"),
                                  ({"recipe": recipe, "data": "photos", "settings": {"optimizer": "lion"}}, 400, "optimizer must be"),
                                  ({"recipe": recipe, "data": "photos", "settings": {"damage.noise": 5}}, 400, "does not use damage.noise"),
                                  ({"recipe": recipe, "data": "photos", "settings": {"model": "none"}}, 404, "no architecture is called 'none'"),
                                  ({"recipe": recipe, "data": "photos", "settings": {"task": "restore"}}, 400, "cannot be trained to"),
                                  ({"recipe": recipe, "data": "photos", "settings": {"gates.lr": 1}}, 400, "has no block gates"),
                                  ({"recipe": recipe, "data": "photos", "settings": ["lr=1"] * 100}, 400, "at most 64 settings"),
                                  ({"recipe": "diffae-latent", "data": "photos"}, 400, "learns from what a trained autoencoder makes"),
                                  ({"recipe": recipe, "data": "gone"}, 404, "the folder 'gone' is not there any more"),
                                  ({"recipe": recipe, "data": "photos", "precision": "int8"}, 400, "precision must be f32 or bf16"),
                                  ({"recipe": recipe, "data": "photos", "steps": "many"}, 400, "steps must be a number"),
                                  ({"recipe": recipe, "data": "photos", "seed": -3}, 400, "seed must be a number")):
        message = server.json("POST", "/api/runs", fields, expect=status)["error"]["message"]
        assert words in message, (fields, message)
    same((os.path.exists(path("runs")), server.json("GET", "/api/runs")["runs"]), (False, []), "runs that were refused")
    os.makedirs(path("gone"))
    run_ = server.json("POST", "/api/runs", {"name": "first", "recipe": "taesd", "data": "photos", "steps": 100000, "settings": SMALL}, expect=201)
    same((run_["name"], run_["state"]), ("first", "running"), "run")
    name, data = next(server.events("/api/runs/first/events"))
    same((name, data["state"]), ("progress", "running"), "event")
    wait_for("steps", lambda: state("first")["step"] >= 3)
    server.json("POST", "/api/runs", {"name": "second", "recipe": "taesd", "data": "photos"}, expect=409)
    server.json("POST", "/api/runs", {"name": "first", "recipe": "taesd", "data": "photos"}, expect=409)


def test_stop_and_resume():
    server.json("POST", "/api/runs/first/stop", {})
    names = [name for name, _ in server.events("/api/runs/first/events")]
    same(server.ask("GET", "/api/runs/first/events")[2].getheader("X-Accel-Buffering"), "no", "buffering of events by nginx")
    same(names[-1], "stopped", "last event")
    metrics = server.json("GET", "/api/runs/first/metrics")["metrics"]
    assert metrics and all("step" in line for line in metrics), metrics
    server.json("POST", "/api/runs/first/resume", {})
    wait_for("more steps", lambda: state("first")["state"] == "running" and state("first")["step"] > 0)


def test_survives():
    """The server is stopped while it trains: the run is saved, and the next server continues it."""
    server.stop()
    again = Server(*options)
    globals()["server"] = again
    run_ = state("first")
    same(run_["state"], "stopped", "after a restart")
    server.json("POST", "/api/runs/first/resume", {})
    wait_for("the run", lambda: state("first")["state"] == "running" and state("first")["step"] > 0)
    server.json("POST", "/api/runs/first/stop", {})
    wait_for("the stop", lambda: state("first")["state"] == "stopped")


def test_settings_by_name():
    """An object means the same as KEY=VALUE."""
    for name, settings in (("pairs", SMALL), ("named", {"batch": 2, "size": 16, "warmup": 1, "held_out": 30, "eval_every": 2})):
        server.json("POST", "/api/runs", {"name": name, "recipe": "taesd", "data": "photos", "steps": 2, "seed": 1, "settings": settings}, expect=201)
        wait_for("the end", lambda: state(name)["state"] == "finished")
    same(content("runs/named/model.safetensors"), content("runs/pairs/model.safetensors"), "model")


def test_uploaded_images():
    run_ = server.form("/api/runs", [("name", "mine"), ("recipe", "taesd"), ("steps", 2), *(("settings", s) for s in SMALL),
                                     *(("file", (f"{n}.png", content(f"photos/{n}.png"))) for n in range(6))], 201)
    end = wait_for("the end", lambda: state("mine") if state("mine")["state"] not in ("running", "stopping") else None)
    same((end["state"], end["error"], end["model"]), ("finished", None, "run:mine"), "run")
    for file in end["samples"]:
        same(server.ask("GET", f"/api/runs/mine/samples/{file}")[1][:4], b"\x89PNG", file)
    # The model that came out is at once one of the server's.
    same(server.job("reconstruct", ["photos/1.png"], model="run:mine")["state"], "done", "the run's model")
    for name in ("run:nosuch", "run:..", "run:mine%s", "run:"):
        assert f"no model is called '{name}'" in server.job("reconstruct", ["photos/1.png"], "failed", model=name)["error"]
    refused = server.json("POST", "/v1/images/generations", {"prompt": "a fox", "model": "run:mine"}, expect=404)
    assert "no generator is called 'run:mine'" in refused["error"]["message"], refused
    same(sorted(r["name"] for r in server.json("GET", "/api/runs")["runs"]), ["first", "mine", "named", "pairs"], "runs")


def test_a_bad_image_leaves_nothing():
    broken = server.form("/api/runs", [("name", "bad"), ("recipe", "taesd"), ("file", ("0.png", content("photos/0.png"))), ("file", ("1.png", b"not an image"))], 400)
    assert broken["error"]["message"].startswith("1.png: not an image"), broken
    assert broken["error"]["message"], broken
    same([f for f in os.listdir(path("runs")) if f.startswith("bad")], [], "files of the refused run")
    server.json("POST", "/api/runs", {"name": "bad", "recipe": "taesd", "data": "photos", "steps": 2, "settings": SMALL}, expect=201)
    wait_for("the end of the run with the name of the refused one", lambda: state("bad")["state"] == "finished")


def test_others_are_answered_while_images_are_decoded():
    tool("makeimage", "large.jpg", "4000", "3000", "1")
    files = [("file", (f"{n}.jpg", content("large.jpg"))) for n in range(3)]
    answers, seen = [], []
    sender = threading.Thread(target=lambda: answers.append(server.form("/api/runs", [("name", "slow"), ("recipe", "taesd"), *files, ("file", ("last one.png", b"none"))], 400)))
    sender.start()
    while sender.is_alive():
        seen += [run for run in server.json("GET", "/api/runs")["runs"] if run["name"] == "slow" and run["state"] == "running"]
    assert seen, "the run was not listed before its request was answered"
    assert answers[0]["error"]["message"].startswith("last one.png: not an image"), answers
    same([f for f in os.listdir(path("runs")) if f.startswith("slow")], [], "files of the refused run")


def test_end():
    server.stop()


main(test_start, test_stop_and_resume, test_survives, test_settings_by_name, test_uploaded_images, test_a_bad_image_leaves_nothing,
     test_others_are_answered_while_images_are_decoded, test_end)
