"""The APIs of other programs: OpenAI's, and the calls that Open WebUI, SillyTavern, KoboldAI Lite and stable-ui make."""
import struct

from serving import *

tool("makeimage", "photo.png", "48", "32")
tool("tinymodel", "models/tiny")
tool("tinymodel", "models/other")
environment["ZENITH_MODELS"] = path("models")
server = Server("--cors", "https://lite.koboldai.net", "--api-key", "secret")
KEY = {"Authorization": "Bearer secret"}


def post(address, body, expect=200, headers=KEY):
    return server.json("POST", address, body, headers, expect)


def get(address, expect=200, headers=KEY):
    return server.json("GET", address, None, headers, expect)


def image(text):
    bytes_ = base64.b64decode(text, validate=True)
    same(bytes_[:8], b"\x89PNG\r\n\x1a\n", "a PNG")
    return bytes_


def by_program(name, *words):
    program("generate", *words, "-o", name)
    return content(name)


def test_openai():
    same([m["id"] for m in get("/v1/models")["data"]], ["other", "tiny", "zenith-mini"], "models")
    answer = post("/v1/images/generations", {"model": "tiny", "prompt": "a red fox", "n": 2, "size": "48x32", "steps": 2, "seed": 7,
                                             "quality": "high", "user": "someone", "unknown": {"a": [1]}})
    expected = by_program("fox.png", "a red fox", "-m", "tiny", "--size", "48x32", "--steps", "2", "--seed", "7")
    same((len(answer["data"]), image(answer["data"][0]["b64_json"])), (2, expected), "generation")
    same((answer["output_format"], answer["size"]), ("png", "48x32"), "answer")
    assert answer["usage"]["total_tokens"] == answer["usage"]["input_tokens"] + answer["usage"]["output_tokens"] > 0
    url = post("/v1/images/generations", {"model": "tiny", "prompt": "a red fox", "size": "48x32", "steps": 2, "seed": 7,
                                          "response_format": "url"})["data"][0]["url"]
    same(server.ask("GET", "/" + url.split("/", 3)[3], headers=KEY)[1], expected, "by URL")
    other = post("/v1/images/generations", {"model": "tiny", "prompt": "a red fox", "size": "48x32", "num_inference_steps": 2, "seed": 7,
                                            "guidance_scale": 3.0, "negative_prompt": "dog"})
    same(image(other["data"][0]["b64_json"]),
         by_program("guided.png", "a red fox", "-m", "tiny", "--size", "48x32", "--steps", "2", "--seed", "7", "--guidance", "3", "--negative", "dog"),
         "guidance")
    for fields, status in (({}, 400), ({"prompt": "x", "n": 11}, 400), ({"prompt": "x", "size": "big"}, 400),
                           ({"prompt": "x", "model": "flux"}, 404), ({"prompt": "x", "size": "50x50"}, 400)):
        error = post("/v1/images/generations", fields, status)["error"]
        assert set(error) == {"message", "type", "param", "code"} and error["message"], error


def test_openai_stream():
    c = server.connect()
    c.request("POST", "/v1/images/generations", json.dumps({"model": "tiny", "prompt": "a red fox", "size": "48x32", "steps": 60, "seed": 7,
                                                            "stream": True, "partial_images": 2}), KEY)
    answer = c.getresponse()
    same((answer.status, answer.getheader("Content-Type")), (200, "text/event-stream"), "stream")
    events = [json.loads(line[6:]) for line in answer.read().decode().splitlines() if line.startswith("data: ")]
    # A client that is slower than the steps misses partial images, so there may be fewer than asked for.
    *partial, last = events
    assert 1 <= len(partial) <= 2 and all(e["type"] == "image_generation.partial_image" for e in partial), events
    same(last["type"], "image_generation.completed", "last event")
    same([e["partial_image_index"] for e in partial], list(range(len(partial))), "indices")
    for e in partial:
        same(base64.b64decode(e["b64_json"])[:2], b"\xff\xd8", "a partial image")
    same(image(last["b64_json"]), by_program("many.png", "a red fox", "-m", "tiny", "--size", "48x32", "--steps", "60", "--seed", "7"), "completed")
    for key in ("usage", "created_at", "size", "quality", "background", "output_format"):
        assert key in last, key


def test_openai_edit():
    for name in ("image", "image[]"):
        answer = server.form("/v1/images/edits", [("prompt", "a fox"), ("model", "tiny"), ("steps", 4), ("seed", 1), (name, ("photo.png", content("photo.png")))], headers=KEY)
        same(image(answer["data"][0]["b64_json"]),
             by_program("edit.png", "a fox", "-m", "tiny", "--image", "photo.png", "--steps", "4", "--seed", "1"), "edit")
    photo = ("image[]", ("photo.png", content("photo.png")))
    answer = server.form("/v1/images/edits", [("prompt", "a fox"), ("model", "tiny"), ("steps", 1), photo, photo], headers=KEY)
    assert any("of 2 images only the first" in remark for remark in answer["remarks"]), answer["remarks"]
    server.form("/v1/images/edits", [("prompt", "a fox")], 400, KEY)


def test_key():
    for headers, status in (({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": "Bearer secre"}, 401),
                            ({"Authorization": "Bearer secrets"}, 401), ({"X-API-Key": "secret"}, 200),
                            ({"Authorization": "Basic " + base64.b64encode(b"user:secret").decode()}, 200),
                            ({"Authorization": "Basic " + base64.b64encode(b"secret").decode()}, 401),
                            ({"Cookie": "a=b; zenith_key=secret"}, 200), ({"Cookie": "xzenith_key=secret"}, 401)):
        same(server.ask("GET", "/v1/models", headers=headers)[0], status, str(headers))
    same([server.ask("GET", address)[0] for address in ("/", "/healthz", "/metrics")], [200, 200, 401], "without a key")


def test_open_webui():
    basic = {"authorization": "Basic " + base64.b64encode(b"x:secret").decode()}
    options = get("/sdapi/v1/options", headers=basic)
    same(options["sd_model_checkpoint"], "other", "the first model")
    options["sd_model_checkpoint"] = "tiny"
    post("/sdapi/v1/options", options, headers=basic)
    same([m["title"] for m in get("/sdapi/v1/sd-models", headers=basic)], ["other", "tiny", "zenith-mini"], "models")
    answer = post("/sdapi/v1/txt2img", {"prompt": "a red fox", "batch_size": 2, "width": 48, "height": 32, "steps": 2}, headers=basic)
    info = json.loads(answer["info"])
    same((len(answer["images"]), len(info["all_seeds"]), info["all_seeds"][0]), (2, 2, info["seed"]), "txt2img")
    same((answer["parameters"]["batch_size"], answer["parameters"]["n_iter"]), (2, 1), "its parameters")
    same(image(answer["images"][0]),
         by_program("webui.png", "a red fox", "-m", "tiny", "--size", "48x32", "--steps", "2", "--seed", str(info["seed"])), "the program's image")


def test_silly_tavern():
    get("/sdapi/v1/options")
    for name in ("upscalers", "latent-upscale-modes", "sd-vae", "samplers", "schedulers", "sd-models"):
        for item in get("/sdapi/v1/" + name):
            assert "name" in item or "title" in item, item
    same([u["name"] for u in get("/sdapi/v1/upscalers")], ["None", "zenith-upscale"], "upscalers")
    post("/sdapi/v1/options", {"sd_model_checkpoint": "tiny"})
    progress = get("/sdapi/v1/progress")
    same((progress["progress"], progress["state"]["job_count"], progress["current_image"]), (0, 0, None), "idle")
    body = {"prompt": "a red fox", "negative_prompt": "", "sampler_name": "Euler", "scheduler": "Simple", "steps": 2, "cfg_scale": 1,
            "width": 48, "height": 32, "seed": 7, "enable_hr": False, "override_settings": {"CLIP_stop_at_last_layers": 1}, "clip_skip": 1,
            "override_settings_restore_afterwards": True, "save_images": True, "send_images": True, "do_not_save_grid": False}
    same(image(post("/sdapi/v1/txt2img", body)["images"][0]), content("fox.png"), "txt2img")
    # Progress while it works, then the abort.
    answers = []
    thread = threading.Thread(target=lambda: answers.append(post("/sdapi/v1/txt2img", dict(body, steps=1000, width=256, height=256))))
    thread.start()
    wait_for("a step", lambda: get("/sdapi/v1/progress?skip_current_image=true")["state"]["sampling_step"] > 0)
    progress = get("/sdapi/v1/progress?skip_current_image=false")
    assert 0 < progress["progress"] < 1 and progress["state"]["job_count"] == 1 and progress["current_image"], progress
    same(get("/sdapi/v1/progress?skip_current_image=true")["current_image"], None, "without an image")
    post("/sdapi/v1/interrupt", {})
    thread.join()
    same(answers[0]["images"], [], "interrupted")


def test_batches_and_images():
    """job_count and job_no are those of the request's batches; images stay on the server if the client wants none."""
    body = {"prompt": "a red fox", "steps": 100, "cfg_scale": 1, "width": 128, "height": 128, "seed": 7, "n_iter": 3, "batch_size": 2,
            "send_images": False, "save_images": True}
    answers, seen = [], []
    thread = threading.Thread(target=lambda: answers.append(post("/sdapi/v1/txt2img", body)))
    thread.start()
    while thread.is_alive():
        state = get("/sdapi/v1/progress?skip_current_image=true")["state"]
        seen += [(state["job_count"], state["job_no"])] if state["job_count"] else []
        assert state["job_count"] == 0 or re.fullmatch("[0-9]{14}", state["job_timestamp"]), state
    thread.join()
    # A slow client may miss a batch, but hardly all after the first.
    assert {(3, 0), (3, 1), (3, 2)} >= set(seen) and len(set(seen)) > 1 and seen == sorted(seen), seen
    info = json.loads(answers[0]["info"])
    same((answers[0]["images"], len(info["all_seeds"]), answers[0]["parameters"]["n_iter"]), ([], 6, 3), "the answer without images")
    job = get("/api/jobs/" + info["job"])
    same((job["state"], len(job["results"])), ("done", 6), "the job")
    few = dict(body, steps=2, n_iter=1, batch_size=1, init_images=[base64.b64encode(content("photo.png")).decode()])
    same(post("/sdapi/v1/img2img", few)["images"], [], "img2img without images")
    same(len(post("/sdapi/v1/txt2img", dict(few, send_images=True))["images"]), 1, "txt2img with them")


def test_skip_and_interrupt():
    """Of a batch, skip loses the image that is being made, and interrupt that one and those after it."""
    body = {"prompt": "a red fox", "steps": 150, "cfg_scale": 1, "width": 128, "height": 128, "seed": 7, "n_iter": 3}
    for stop, begun in (("skip", 0), ("interrupt", 0.34)):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(post("/sdapi/v1/txt2img", body)))
        thread.start()
        wait_for("a step", lambda: get("/sdapi/v1/progress?skip_current_image=true")["progress"] > max(begun, 0.001))
        same(post("/sdapi/v1/" + stop, {}), {}, stop)
        thread.join()
        images, info = answers[0]["images"], json.loads(answers[0]["info"])
        assert len(images) == 2 if stop == "skip" else 1 <= len(images) <= 2, f"{stop}: {len(images)} images"
        same((len(info["all_seeds"]), info["seed"]), (len(images), info["all_seeds"][0]), "seeds")
        for i, seed in enumerate(info["all_seeds"]):
            assert f"Seed: {seed}," in info["infotexts"][i]
            expected = by_program("batch.png", "a red fox", "-m", "tiny", "--size", "128x128", "--steps", "150", "--seed", str(seed), "--guidance", "0")
            same(image(images[i]), expected, f"{stop}: the image of seed {seed}")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(post("/sdapi/v1/txt2img", dict(body, n_iter=1, steps=1000))))
    thread.start()
    wait_for("a step", lambda: get("/sdapi/v1/progress?skip_current_image=true")["progress"] > 0.001)
    post("/sdapi/v1/skip", {})
    thread.join()
    same((answers[0]["images"], answers[0]["info"]), ([], "{}"), "the only image was skipped")


def test_kobold_lite():
    page = dict(KEY, Origin="https://lite.koboldai.net")
    status, _, answer = server.ask("OPTIONS", "/sdapi/v1/txt2img", headers={"Origin": page["Origin"], "Access-Control-Request-Method": "POST"})
    same((status, answer.getheader("Access-Control-Allow-Origin")), (204, page["Origin"]), "preflight")
    get("/sdapi/v1/sd-models", headers=page)
    get("/sdapi/v1/options", headers=page)
    photo = base64.b64encode(content("photo.png")).decode()
    answer = post("/sdapi/v1/img2img", {"prompt": "a fox", "init_images": [photo], "denoising_strength": 0.5, "steps": 4, "seed": 1, "width": 48, "height": 32}, headers=page)
    expected = by_program("kobold.png", "a fox", "-m", "tiny", "--image", "photo.png", "--strength", "0.5", "--steps", "4", "--seed", "1", "--size", "48x32")
    # The program stores the name of the image, which this API does not have: the pixels are compared.
    with open(path("answer.png"), "wb") as f:
        f.write(image(answer["images"][0]))
    assert json.loads(run(PROGRAM, "compare", "answer.png", "kobold.png", "--json"))["identical"]
    same(server.ask("GET", "/sdapi/v1/options", headers=dict(KEY, Origin="https://evil.example"))[0], 403, "another page")


def test_stable_ui():
    assert get("/sdapi/v1/sd-models")[0]["model_name"]
    same(get("/sdapi/v1/loras"), [], "LoRAs")
    answer = post("/sdapi/v1/txt2img", {"prompt": "a red fox", "width": 48, "height": 32, "steps": 2, "seed": 7, "genkey": "k"})
    same(image(answer["images"][0]), content("fox.png"), "txt2img")
    get("/sdapi/v1/progress?skip_current_image=true&genkey=k")
    info = post("/sdapi/v1/png-info", {"image": answer["images"][0]})
    assert info["info"].startswith("a red fox\nSteps: 2"), info


def write_lora(name, dim=32, rank=2):
    """A LoRA for one layer of the tiny model."""
    down = [0.2 * (i % 7 - 3) for i in range(rank * dim)]
    up = [0.2 * (i % 5 - 2) for i in range(rank * dim)]
    layer, size = "transformer.layers.1.attention.to_q", 4 * rank * dim
    head = json.dumps({f"{layer}.lora_A.weight": {"dtype": "F32", "shape": [rank, dim], "data_offsets": [0, size]},
                       f"{layer}.lora_B.weight": {"dtype": "F32", "shape": [dim, rank], "data_offsets": [size, 2 * size]}}).encode()
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + struct.pack(f"<{2 * rank * dim}f", *down, *up))


def test_loras():
    write_lora("models/loras/style.safetensors")
    write_lora("secret.safetensors")
    listed = get("/sdapi/v1/loras")
    same([(lora["name"], lora["alias"]) for lora in listed], [("style", "style")], "LoRAs")
    assert work not in str(listed), listed
    assert "style" not in [m["name"] for m in get("/api/models")["models"]], "a LoRA is not a model"
    few = ["a red fox", "-m", "tiny", "--size", "48x32", "--steps", "2", "--seed", "7"]
    plain, styled = content("fox.png"), by_program("styled.png", *few, "--lora", "style:0.8")
    assert plain != styled
    by_path = by_program("path.png", *few, "--lora", "models/loras/style.safetensors:0.8", "--strip")
    same(by_program("name.png", *few, "--lora", "style:0.8", "--strip"), by_path, "a LoRA by name and by path")
    body = {"model": "tiny", "prompt": "a red fox", "size": "48x32", "steps": 2, "seed": 7}
    for lora in ("style:0.8", ["style:0.8"]):
        same(image(post("/v1/images/generations", dict(body, lora=lora))["data"][0]["b64_json"]), styled, "OpenAI")
    job = post("/api/jobs?wait=1", {"task": "generate", "model": "tiny", "prompt": "a red fox",
                                    "options": {"size": "48x32", "steps": 2, "seed": 7, "lora": ["style:0.8"]}})
    same(server.ask("GET", job["results"][0]["url"], headers=KEY)[1], styled, "our own API")
    a1111 = {"width": 48, "height": 32, "steps": 2, "seed": 7}
    for prompt in ("a red fox <lora:style:0.8>", "a red fox<lora:style:0.8:1>"):
        answer = post("/sdapi/v1/txt2img", dict(a1111, prompt=prompt))
        same(image(answer["images"][0]), styled, "AUTOMATIC1111")
        same(json.loads(answer["info"])["prompt"], prompt, "the prompt as it was sent")
    same(image(post("/sdapi/v1/txt2img", dict(a1111, prompt="a red fox"))["images"][0]), plain, "without it again")
    # Names only: no path reaches a file.
    for name in ("none", "../secret", path("secret"), path("secret.safetensors"), "../models/loras/style", "secret.safetensors", ""):
        error = post("/sdapi/v1/txt2img", dict(a1111, prompt=f"fox <lora:{name}:1>"), 404 if name else 400)["error"]["message"]
        assert "no LoRA is called" in error or not name, error


def test_extras():
    os.makedirs(path("models"), exist_ok=True)
    os.symlink(os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../weights/zenith-restore.safetensors")),
               path("models/zenith-restore.safetensors"))
    photo = base64.b64encode(content("photo.png")).decode()
    program("restore", "photo.png", "-o", "restored.png")
    same(image(post("/sdapi/v1/extra-single-image", {"image": photo, "upscaler_1": "None"})["image"]), content("restored.png"), "restore")
    image(post("/sdapi/v1/extra-single-image", {"image": photo, "upscaler_1": "zenith-restore", "upscaling_resize": 2})["image"])
    refused = post("/sdapi/v1/extra-single-image", {"image": photo, "upscaler_1": "zenith-restore", "upscaling_resize": 3}, expect=400)
    assert "2 or 4, not 3" in str(refused), refused


def test_bundled_model():
    """What clients send unless somebody changes it gives what zenith-mini can draw; what is asked for is kept."""
    listed = get("/api/models")
    mini = {m["name"]: m for m in listed["models"]}["zenith-mini"]
    assert "Portraits look like photos" in mini["description"] and "a portrait of a smiling woman" in mini["examples"], mini
    same((mini["width"], mini["height"], listed["generator"]), (128, 128, "tiny"), "its size, and the default")
    same([bool(m["description"]) for m in get("/v1/models")["data"]], [False, False, True], "descriptions")
    post("/sdapi/v1/options", {"sd_model_checkpoint": "zenith-mini"})
    few = {"prompt": "a portrait of a man", "steps": 1, "seed": 7}
    expected = by_program("mini.png", few["prompt"], "-m", "zenith-mini", "--steps", "1", "--seed", "7")
    usual = [{}, {"width": 512, "height": 512, "cfg_scale": 7}, {"width": 1024, "height": 1024}, {"width": 128, "height": 128}]
    for fields in usual:
        answer = post("/sdapi/v1/txt2img", dict(few, **fields))
        same(image(answer["images"][0]), expected, f"AUTOMATIC1111, {fields}")
        info = json.loads(answer["info"])
        same((info["width"], info["cfg_scale"], len(info["remarks"])), (128, 3, int(fields.get("width", 0) > 128)), f"info, {fields}")
    for fields in ({}, {"size": "auto"}, {"size": "1024x1024", "model": "dall-e-2"}, {"size": "512x512", "model": "gpt-image-1"}, {"size": "128x128"}):
        answer = post("/v1/images/generations", dict(few, **fields))
        same((image(answer["data"][0]["b64_json"]), answer["size"]), (expected, "128x128"), f"OpenAI, {fields}")
    # Asked for, so done, with a remark.
    asked = post("/sdapi/v1/txt2img", dict(few, width=64, height=48, cfg_scale=5, prompt="a fox"))
    info = json.loads(asked["info"])
    same((info["width"], info["height"], info["cfg_scale"]), (64, 48, 5), "another size")
    assert len(info["remarks"]) == 2 and "look worse" in info["remarks"][0] and "does not understand" in info["remarks"][1], info
    same(post("/v1/images/generations", dict(few, size="64x48"))["size"], "64x48", "another size")
    same(json.loads(post("/sdapi/v1/txt2img", dict(few, width=64))["info"])["height"], 64, "one side")
    # Models without a size of their own: as before.
    post("/sdapi/v1/options", {"sd_model_checkpoint": "tiny"})
    same(json.loads(post("/sdapi/v1/txt2img", few)["info"])["width"], 512, "the usual size of this API")
    # Images to start from, of any size.
    tool("makeimage", "odd.png", "50", "30")
    photo = base64.b64encode(content("odd.png")).decode()
    answer = post("/sdapi/v1/img2img", dict(few, init_images=[photo]))
    info = json.loads(answer["info"])
    same((info["width"], info["height"]), (48, 32), "an image of odd size")
    assert "50x30 was scaled to 48x32" in info["remarks"][0], info
    post("/sdapi/v1/options", {"sd_model_checkpoint": "zenith-mini"})
    for fields in ({}, {"width": 512, "height": 512}):
        same(json.loads(post("/sdapi/v1/img2img", dict(few, init_images=[photo], **fields))["info"])["width"], 128, "the model's own size")
    post("/sdapi/v1/options", {"sd_model_checkpoint": "tiny"})


def test_end():
    server.stop()


main(test_openai, test_openai_stream, test_openai_edit, test_key, test_open_webui, test_silly_tavern, test_batches_and_images, test_skip_and_interrupt, test_kobold_lite, test_stable_ui,
     test_loras, test_extras, test_bundled_model, test_end)
