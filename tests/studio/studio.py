#!/usr/bin/env python3
"""Drives the studio in a real browser: every tool, and what goes wrong in real use. Restore, Latents, Video, Train and Models use the bundled
weights; Generate and Edit use tiny random networks, so that what they show is noise, but everything else is real.

    studio.py ZENITH [--pictures DIR]

Needs playwright and Debian's chromium; without them it says so and exits with 77. Starts its own server on a free port,
with a folder of small photos made by the program. --pictures: also writes the screenshots that the documentation shows.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIP = 1 if os.environ.get("ZENITH_MUST_RUN") else 77  # scripts/deps.sh installs what it needs
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 120_000  # a busy machine; in milliseconds, as playwright counts


class Server:
    """zenith serve on a free port of the loopback, with training data and runs in a folder of its own."""

    def __init__(self, program, folder, *options, cwd=ROOT):
        self.cwd = cwd
        self.command = [program, "serve", "--data", os.path.join(folder, "photos"), "--runs", os.path.join(folder, "runs"),
                        "--models", os.path.join(folder, "models"), *options]
        self.log = os.path.join(folder, f"server{len(options)}.log")
        self.port = 0
        self.start()

    def start(self):
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([*self.command, "--listen", f"127.0.0.1:{self.port}"], stdout=log, stderr=log, cwd=self.cwd)
        for _ in range(6000):
            found = re.search(r"http://127\.0\.0\.1:(\d+)", open(self.log, encoding="utf-8").read())
            if found:
                self.port = int(found[1])
                self.address = f"http://127.0.0.1:{self.port}/"
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit("the server did not start: " + open(self.log, encoding="utf-8").read())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=600)


def photos(folder):
    """Small photos cut from an image that comes with the project, so that jobs take a second."""
    from PIL import Image  # pillow comes with the tests' environment

    os.makedirs(os.path.join(folder, "photos"))
    whole = Image.open(os.path.join(ROOT, "assets", "demo.png")).convert("RGB")
    for i in range(8):
        left, top = (i % 4) * (whole.width - 160) // 4, (i // 4) * (whole.height - 128) // 2
        whole.crop((left, top, left + 160, top + 128)).save(os.path.join(folder, "photos", f"photo{i}.jpg"), quality=70)
    whole.resize((1024, 768)).save(os.path.join(folder, "large.png"))
    whole.resize((4800, 3600)).save(os.path.join(folder, "huge.jpg"))  # seconds of work on any machine
    with open(os.path.join(folder, "broken.jpg"), "wb") as broken:
        broken.write(b"\xff\xd8\xff\xe0 this is not a photo")
    return [os.path.join(folder, "photos", f"photo{i}.jpg") for i in range(8)]


def random_models(program, folder):
    """Small networks that were hardly trained, so that each tool runs in a second; what they make is noise. The generator and the
    video autoencoder are those of the other tests, the diffusion autoencoder is trained for one step here."""
    models = os.path.join(folder, "models")
    os.makedirs(models)
    tool = os.path.join(os.path.dirname(program), "..", "tests", "cli", "tools", "tinymodel")
    subprocess.run([tool, os.path.join(models, "tiny")], check=True)
    shutil.copy(os.path.join(ROOT, "tests", "golden", "wan", "taew2_1.safetensors"), os.path.join(models, "tiny-video.safetensors"))
    names = sorted(os.listdir(os.path.join(folder, "photos")))
    with open(os.path.join(folder, "labels.csv"), "w", encoding="utf-8") as labels:
        labels.write("file,Smiling,Young\n" + "".join(f"{name},{i % 2},{i // 2 % 2}\n" for i, name in enumerate(names)))
    common = "batch: 2\nsteps: 1\nwarmup: 0\nlr: 1e-2\nema: 0\nheld_out: 0\nmodel: diffae-celeba64\n"
    stages = (("auto", "task: diffuse\nwidth: 2\nlatent: 16\nsize: 64\n", []), ("latent", "task: imagine\n", ["--from", "auto"]),
              ("faces", "task: classify\n", ["--from", "latent", "--labels", "labels.csv"]),
              ("judged", "task: classify\n", ["--from", "auto", "--labels", "labels.csv"]))
    for name, text, more in stages:
        with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as recipe:
            recipe.write(common + text)
        subprocess.run([program, "train", "-q", name + ".yaml", "--data", "photos", "-o", name, *more], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    for name in ("faces", "judged"):  # the second has no latent net
        shutil.copytree(os.path.join(folder, name), os.path.join(models, name))


class Desk:
    """One browser tab with the studio in it. Any script error in the page fails the test that caused it."""

    def __init__(self, browser, server, **options):
        self.page = browser.new_page(viewport={"width": 1280, "height": 860}, **options)
        self.page.set_default_timeout(LIMIT)
        self.errors = []
        self.server = server
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda line: self.errors.append(line.text) if "Content Security Policy" in line.text else None)

    def open(self, tool):
        self.page.goto(self.server.address + "#" + tool)
        self.page.reload()
        self.page.get_by_role("link", name=tool.capitalize(), exact=True).wait_for()
        self.page.locator("main h2").wait_for()
        return self.page

    def press(self, name):
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def results(self, count=1):
        self.page.wait_for_function("n => document.querySelectorAll('main .gallery > figure:not(.pending)').length >= n", arg=count)
        return self.page.locator("main .gallery > figure")

    def picture(self, folder, name):
        """A screenshot for the documentation, where one is asked for."""
        if folder:
            self.page.evaluate("() => { document.activeElement.blur(); document.getElementById('clear').click(); scrollTo(0, 0); }")
            self.page.wait_for_timeout(300)
            self.page.screenshot(path=os.path.join(folder, name))

    def sentence(self):
        self.page.wait_for_function("() => document.querySelector('main [role=alert]:not(:empty)')")
        return self.page.locator("main [role=alert]:not(:empty)").inner_text()


def restore(desk, files, pictures):
    page = desk.open("restore")
    desk.press("Try an example")
    page.locator(".drop li").wait_for()
    page.get_by_label("Photos", exact=True).set_input_files(files[0])
    desk.press("Start")
    desk.results(2)
    page.get_by_text("2 of 2 photos").wait_for()
    slider = page.get_by_label("Share of the image before").first
    slider.focus()
    slider.press("ArrowRight")
    assert slider.input_value() == "51", "the slider follows the keyboard"
    assert page.locator(".pair img").first.evaluate("image => image.naturalWidth") == 512
    desk.picture(pictures, "studio-restore.png")


def full_size(desk, files, _):
    page = desk.open("restore")
    page.get_by_label("Photos", exact=True).set_input_files(files[:2])
    page.get_by_role("button", name="Remove photo1.jpg").click()
    desk.press("Start")
    desk.results(1)
    desk.press("Full size")
    page.get_by_role("radio", name="200 %").focus()
    page.keyboard.press("Space")
    box = page.locator("dialog .pair").bounding_box()
    assert box["width"] == 320, f"200 % of 160 pixels, not {box['width']}"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")


def restore_settings(desk, files, _):
    page = desk.open("restore")
    page.get_by_label("Photos", exact=True).set_input_files(files[0])
    page.locator("input[name=strength]").fill("0.5")
    desk.press("Start")
    desk.results(1)
    page.get_by_role("radio", name="Enlarge").check(force=True)  # the text lies over the button
    page.locator("select[name=scale]").select_option("4")
    desk.press("Start")
    desk.results(2)
    page.wait_for_function("() => [...document.querySelectorAll('.pair img')].some((image) => image.naturalWidth === 640)")


def latents(desk, files, pictures):
    page = desk.open("restore")
    page.get_by_role("button", name="Start", exact=True).wait_for()
    page.route("**/api/models", lambda route: (time.sleep(1), route.continue_()))  # a busy server
    page.get_by_role("link", name="Latents", exact=True).click()
    desk.press("Try an example")  # of the new tool: the old one can no longer be used
    page.locator("section.latents .drop li").wait_for()
    page.unroute("**/api/models")
    page = desk.open("latents")
    assert page.locator("main input:checked").get_attribute("name") == "use:zenith-r", "the usual autoencoder is ticked"
    page.get_by_label("An image, or a latent to decode", exact=True).set_input_files(files[0])
    desk.press("Encode and decode")
    desk.results()
    psnr = float(page.locator("main tbody td.number").first.inner_text())
    assert 20 < psnr < 60, f"a plausible PSNR, not {psnr}"
    with page.expect_download() as saved:
        desk.press("Save latent")
    latent = saved.value.path()
    name = os.path.join(os.path.dirname(files[0]), "..", saved.value.suggested_filename)
    shutil.copy(latent, name)
    page.get_by_label("An image, or a latent to decode", exact=True).set_input_files(name)
    desk.press("Encode and decode")
    desk.results(2)
    desk.picture(pictures, "studio-latents.png")


def generate(desk, files, pictures):
    page = desk.open("generate")
    page.get_by_label("Prompt", exact=True).fill("a red fox")
    page.get_by_label("Size").select_option("128x128")
    page.get_by_text("More settings").click()
    page.get_by_label("Steps").fill("4")
    page.get_by_label("Seed").fill("7")
    desk.press("Generate")
    desk.results(1)
    assert page.locator("main figure img").first.evaluate("image => image.naturalWidth") == 128
    assert "seed 7" in page.locator("main figcaption").first.inner_text()
    desk.press("Again")
    desk.results(2)
    same = page.evaluate("""() => { const [a, b] = [...document.querySelectorAll('main figure img')].map((image) => {
        const canvas = Object.assign(document.createElement('canvas'), { width: image.naturalWidth, height: image.naturalHeight });
        canvas.getContext('2d').drawImage(image, 0, 0);
        return canvas.toDataURL(); });
        return a === b; }""")
    assert same, "Again makes the same image"
    desk.press("Vary")
    desk.results(3)
    page.get_by_text("Start from an image", exact=True).click()
    from PIL import Image

    odd = os.path.join(os.path.dirname(files[0]), "..", "odd.jpg")  # sides that no generator makes, as phones have them
    Image.open(files[0]).resize((150, 101)).save(odd)
    page.get_by_label("An image to start from", exact=True).set_input_files(odd)
    page.get_by_label("Size").select_option("")
    desk.press("Generate")
    desk.results(4)
    assert page.locator("main figure img").first.evaluate("image => [image.naturalWidth, image.naturalHeight].join()") == "144,96"
    desk.picture(pictures, "studio-generate.png")


def edit(desk, files, pictures):
    page = desk.open("edit")

    def steps():
        page.locator("summary:visible", has_text="More settings").click()
        page.locator("input[name=steps]:visible").fill("5")
        page.locator("input[name=encode_steps]:visible").fill("5")

    page.get_by_label("An image to edit", exact=True).set_input_files(files[0])
    steps()
    desk.press("Edit")
    assert "slider" in desk.sentence()
    page.locator("input[name=Young]").fill("1")
    page.locator("input[name=Smiling]").fill("0.5")
    assert page.locator("input[name=Young]").input_value() == "0", "one attribute at a time"
    desk.press("Edit")
    desk.results(1)
    assert re.search(r"Smiling \+0\.5: the classifier now says \d+ %", page.locator("main figcaption").first.inner_text())
    desk.picture(pictures, "studio-edit.png")
    page.get_by_role("checkbox", name="Imagine it").check()
    desk.press("Edit")
    desk.results(2)
    assert "Smiling +0.5, imagined" in page.locator("main figcaption").first.inner_text()
    assert page.evaluate("async () => (await (await fetch('/api/jobs')).json()).jobs[0].facts.way") == "imagined"
    model = page.locator("select[name=model]:visible")
    model.select_option("judged")
    assert not page.get_by_role("checkbox", name="Imagine it").is_visible(), "a model without a latent net cannot imagine"
    model.select_option("faces")
    page.get_by_role("radio", name="Between two").check(force=True)
    page.get_by_label("From this image", exact=True).set_input_files(files[0])
    page.get_by_label("To this image", exact=True).set_input_files(files[1])
    page.locator("input[name=frames]").fill("3")
    steps()
    desk.press("Interpolate")
    desk.results(5)
    page.get_by_role("radio", name="Samples").check(force=True)
    page.locator("input[name=count]:visible").fill("2")
    page.locator("input[name=steps]:visible").fill("5")
    desk.press("Sample")
    desk.results(7)


def clip_of(files):
    from PIL import Image

    clip = os.path.join(os.path.dirname(files[0]), "..", "clip.gif")
    frames = [Image.open(name).resize((64, 48)) for name in files[:6]]
    frames[0].save(clip, save_all=True, append_images=frames[1:], duration=100)
    return clip


def video(desk, files, pictures):
    """By the bundled image autoencoder: the example, its latent and back, restored."""
    page = desk.open("video")
    model = page.get_by_label("Model").first
    model.select_option("zenith-r")
    assert "each frame by itself" in model.locator("option[value=zenith-r]").inner_text()
    desk.press("Try an example")
    page.locator(".drop li", has_text="lighthouse.webm").wait_for()
    desk.press("Start")
    desk.results(1)
    page.wait_for_function("() => document.querySelectorAll('main video').length === 2 && [...document.querySelectorAll('main video')].at(-1).duration > 0")
    caption = page.locator("main figcaption").first.inner_text()
    frames, psnr = int(re.search(r"(\d+) frames", caption)[1]), float(re.search(r"([\d.]+) dB", caption)[1])
    assert frames > 4 and 20 < psnr < 60, caption
    scrub = page.get_by_label("Frame of the clip")
    scrub.focus()
    scrub.press("ArrowRight")
    page.get_by_text(f"2 of {frames}", exact=True).wait_for()
    scrub.press("End")
    page.get_by_text(f"{frames} of {frames}", exact=True).wait_for()
    page.wait_for_function("() => [...document.querySelectorAll('main video')].every((one) => one.currentTime > 0.3)")
    desk.picture(pictures, "studio-video.png")
    with page.expect_download() as saved:
        desk.press("Save latent")
    latent = os.path.join(os.path.dirname(files[0]), "..", "clip-" + saved.value.suggested_filename)
    shutil.copy(saved.value.path(), latent)
    clip = page.get_by_label("A clip (MP4, WebM, GIF), or its latent", exact=True)
    clip.set_input_files(latent)
    desk.press("Start")
    desk.results(2)
    assert f"{frames} frames" in page.locator("main figcaption").first.inner_text()
    page.get_by_role("radio", name="Restore").check(force=True)
    desk.press("Start")
    assert "not a video file" in desk.sentence()
    desk.press("Try an example")
    page.locator(".drop li", has_text="lighthouse.webm").wait_for()
    desk.press("Start")
    desk.results(3)
    assert "320×240" in page.locator("main figcaption").first.inner_text()


def video_autoencoder(desk, files, _):
    page = desk.open("video")
    page.get_by_label("Model").first.select_option("tiny-video")
    page.get_by_label("A clip (MP4, WebM, GIF), or its latent", exact=True).set_input_files(clip_of(files))
    desk.press("Start")
    desk.results(1)
    page.wait_for_function("() => document.querySelector('main video').duration > 0 && document.querySelector('main figure canvas')?.width === 64")
    # the scrubber moves the frames of the GIF too
    drawn = "() => { const c = document.querySelector('main figure canvas'); return [c.dataset.frame, [...c.getContext('2d').getImageData(0, 0, 64, 48).data].join()]; }"
    seen = {}
    scrub = page.get_by_label("Frame of the clip")
    scrub.focus()
    frames = int(scrub.get_attribute("max")) + 1
    for key, number in (("Home", 1), ("ArrowRight", 2), ("End", frames)):
        scrub.press(key)
        page.wait_for_function("n => document.querySelector('main figure canvas').dataset.frame === n", arg=str(number))
        seen[number] = page.evaluate(drawn)[1]
    assert frames > 2 and len(set(seen.values())) == 3, frames
    scrub.press("Home")
    desk.press("Play")
    page.wait_for_function("() => Number(document.querySelector('main figure canvas').dataset.frame) > 1")


def cut_film(desk, files, _):
    """What the server remarks on a video that was cut off is below its result, once."""
    folder, program = os.path.dirname(os.path.dirname(files[0])), desk.server.command[0]
    latent, whole, cut = (os.path.join(folder, name) for name in ("eight.safetensors", "whole.mkv", "cut.mkv"))
    subprocess.run([program, "encode", "-q", "--clip", *files, "-m", "zenith-r", "-o", latent], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    subprocess.run([program, "decode", "-q", latent, "-m", "zenith-r", "--rate", "1", "-o", whole], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    with open(whole, "rb") as film, open(cut, "wb") as part:
        part.write(film.read()[:os.path.getsize(whole) * 2 // 3])
    page = desk.open("video")
    page.get_by_label("Model").first.select_option("zenith-r")
    clip = page.get_by_label("A clip (MP4, WebM, GIF), or its latent", exact=True)
    for count, film in enumerate((whole, cut), 1):
        clip.set_input_files(film)
        desk.press("Start")
        desk.results(count)
    remarks = page.locator("main figure").first.locator(".remark")
    assert any(text.startswith("cut.mkv: the file ends ") for text in remarks.all_inner_texts()), remarks.all_inner_texts()
    shown = remarks.all_inner_texts()
    with page.expect_download():
        desk.press("Save latent")
    page.get_by_role("button", name="Save latent").first.and_(page.locator(":enabled")).wait_for()
    assert remarks.all_inner_texts() == shown, "the latent's remarks are the same"
    assert page.locator("main figure").last.locator(".remark").count() == 0, "nothing to remark on the whole one"


def bad_file(desk, files, _):
    page = desk.open("restore")
    page.get_by_label("Photos", exact=True).set_input_files(os.path.join(os.path.dirname(files[0]), "..", "broken.jpg"))
    desk.press("Start")
    assert "broken.jpg" in desk.sentence() or "JPEG" in desk.sentence(), desk.sentence()


def bad_file_is_reported_in_view(desk, files, _):
    """The sentence is visible below a form that is longer than the window, and names the file."""
    page = desk.open("generate")
    page.set_viewport_size({"width": 1280, "height": 500})
    broken = os.path.join(os.path.dirname(files[0]), "..", "broken.jpg")
    page.get_by_text("Start from an image", exact=True).click()
    page.get_by_label("An image to start from", exact=True).set_input_files(broken)
    page.get_by_label("Prompt", exact=True).fill("a fox")
    desk.press("Generate")
    assert "broken.jpg" in desk.sentence()
    page.wait_for_function("""() => { const box = document.querySelector('main [role=alert]:not(:empty)').getBoundingClientRect();
        const form = document.querySelector('main form').getBoundingClientRect();
        return box.bottom <= innerHeight + 1 && box.bottom <= form.bottom + 1; }""")
    page = desk.open("train")
    page.get_by_role("radio", name="My photos").check(force=True)
    page.get_by_label("Name of the run").fill("bad")
    page.get_by_label("Photos to train on", exact=True).set_input_files(broken)
    desk.press("Start training")
    assert "broken.jpg" in desk.sentence(), desk.sentence()


def phone_shows_what_is_being_made(desk, files, _):
    page = desk.open("restore")
    page.set_viewport_size({"width": 390, "height": 600})
    page.get_by_label("Photos", exact=True).set_input_files(os.path.join(os.path.dirname(files[0]), "..", "huge.jpg"))
    desk.press("Start")
    page.wait_for_function("() => document.querySelector('main .pending')?.getBoundingClientRect().top < innerHeight - 100")
    page.locator(".job").get_by_role("button", name="Cancel").first.click()
    page.wait_for_function("() => /cancelled/.test(document.querySelector('.job').innerText)")


def cancel(desk, files, _):
    page = desk.open("restore")
    page.get_by_label("Photos", exact=True).set_input_files(os.path.join(os.path.dirname(files[0]), "..", "huge.jpg"))
    desk.press("Start")
    page.locator(".job").first.wait_for()
    page.locator(".job").get_by_role("button", name="Cancel").first.click()
    page.wait_for_function("() => /cancelled/.test(document.querySelector('.job').innerText)")
    assert not page.locator("main [role=alert]").first.inner_text(), "nothing went wrong"
    assert page.locator("main .gallery > figure").count() == 0


def reload_during_job(desk, files, _):
    page = desk.open("restore")
    page.get_by_label("Photos", exact=True).set_input_files(os.path.join(os.path.dirname(files[0]), "..", "large.png"))
    desk.press("Start")
    page.locator(".job", has_text="large.png").first.wait_for()
    page.reload()
    page.locator(".job", has_text="large.png").first.wait_for()  # the server still works on it, and the page knows
    page.wait_for_function("() => /done/.test(document.querySelector('.job').innerText)")


def two_tabs(desk, files, _):
    other = Desk(desk.page.context.browser, desk.server)
    for tab in (desk, other):
        tab.open("restore").get_by_label("Photos", exact=True).set_input_files(files[0])
        tab.press("Start")
    for tab in (desk, other):
        tab.results()
    assert not other.errors, other.errors
    other.page.close()


def train(desk, files, pictures):
    page = desk.open("train")
    page.get_by_label("Preset").select_option("zenith-r")
    page.get_by_label("Name of the run").fill("first")
    page.get_by_role("spinbutton", name="Steps").fill("2000")
    page.get_by_role("spinbutton", name="Batch").fill("1")
    page.get_by_role("spinbutton", name="Size").fill("32")
    desk.press("Start training")
    page.locator("svg.chart .curve").first.wait_for()
    if pictures:
        page.wait_for_timeout(30000)
    desk.picture(pictures, "studio-train.png")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Resume", exact=True).wait_for()
    page.get_by_role("button", name="Resume", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Resume", exact=True).wait_for()


def train_on_own_photos(desk, files, _):
    page = desk.open("train")
    page.get_by_role("radio", name="My photos").check(force=True)
    page.get_by_label("Name of the run").fill("own")
    page.get_by_role("spinbutton", name="Steps").fill("4")
    page.get_by_role("spinbutton", name="Batch").fill("1")
    page.get_by_role("spinbutton", name="Size").fill("32")
    desk.press("Start training")
    assert "photos" in desk.sentence()
    page.get_by_label("Photos to train on", exact=True).set_input_files(files[:3])
    desk.press("Start training")
    page.locator("details.run", has_text="own").get_by_text("finished").wait_for()


def models(desk, files, pictures):
    page = desk.open("models")
    page.get_by_role("article", name="zenith-r", exact=True).wait_for()
    page.get_by_role("article", name="zenith-restore", exact=True).wait_for()
    facts = page.locator("main .model .facts").all_inner_texts()
    assert len(facts) > 6 and all("iB" in text or " B" in text for text in facts), f"every model has a size: {facts}"
    offer = page.get_by_role("article", name="taesd, published", exact=True)
    assert "zenith pull taesd" in offer.inner_text()
    assert offer.get_by_role("link").get_attribute("href") == "https://github.com/madebyollin/taesd"
    assert page.get_by_role("article", name="zenith-r, published", exact=True).count() == 0
    page.get_by_role("button", name="Profile zenith-restore", exact=True).click()
    page.locator("svg.chart .dot").first.wait_for()
    assert page.locator("svg.chart .roof").count() == 1
    assert "GFLOP/s" in page.locator("svg.chart").first.text_content()
    desk.picture(pictures, "studio-models.png")


TOOLS = ("generate", "restore", "latents", "edit", "video", "train", "models")

# Elements with text of their own whose contrast with the first opaque background behind them is below 4.5.
FAINT = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => { for (; node; node = node.parentElement) {
    const colour = parse(getComputedStyle(node).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour; }
    return parse(getComputedStyle(document.documentElement).backgroundColor); };
  return [...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() && !node.disabled
      && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())).map((node) => {
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
    return [node.textContent.slice(0, 40), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  }).filter(([, ratio]) => ratio < 4.5); }"""


UNNAMED = """() => [...document.querySelectorAll('input, select, textarea, button')]
  .filter((c) => !c.labels?.length && !c.getAttribute('aria-label') && !c.textContent).map((c) => c.outerHTML)"""


def every_tool_opens(desk, files, _):
    """Without an error; readable in light and dark (WCAG: 4.5), no wider than a phone, and every control has a name."""
    page = desk.open("restore")
    for tool in TOOLS:
        page.get_by_role("link", name=tool.capitalize(), exact=True).click()
        page.locator("main h2", has_text=tool.capitalize()).wait_for()
        assert page.locator("main .bad:not(:empty)").count() == 0, page.locator("main").inner_text()
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert not page.evaluate(FAINT), f"{tool}, {scheme}: {page.evaluate(FAINT)}"
        assert not page.evaluate(UNNAMED), f"{tool}: controls without a name: {page.evaluate(UNNAMED)}"
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), f"{tool}: nothing is wider than a phone"
        page.set_viewport_size({"width": 1280, "height": 860})


def keyboard(desk, files, _):
    page = desk.open("restore")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the tool"
    page.get_by_label("Photos", exact=True).focus()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Try an example"
    page.keyboard.press("Enter")
    page.locator(".drop li").wait_for()


def needs_a_key(desk, files, _):
    locked = Server(desk.server.command[0], os.path.dirname(os.path.dirname(files[0])), "--api-key", "secret")
    try:
        desk.page.goto(locked.address)
        desk.page.get_by_label("Key").fill("wrong")
        desk.press("Open")
        desk.page.locator("main .bad").wait_for()
        desk.page.get_by_label("Key").fill("secret")
        desk.press("Open")
        desk.page.get_by_role("heading", name="Restore").wait_for()
    finally:
        locked.stop()


def server_restart(desk, files, _):
    page = desk.open("restore")
    page.get_by_label("Photos", exact=True).set_input_files(os.path.join(os.path.dirname(files[0]), "..", "huge.jpg"))
    desk.press("Start")
    page.locator(".job:not(.ended)").first.wait_for()  # the server has it; jobs of earlier cases have ended
    desk.server.process.kill()
    desk.server.process.wait()
    page.wait_for_function("() => /server/.test(document.querySelector('.job').innerText)")
    desk.server.start()
    page.wait_for_function("() => /no longer knows/.test(document.querySelector('.job').innerText)")
    page.get_by_label("Photos", exact=True).set_input_files(files[0])
    desk.press("Start")
    desk.results()


def no_weights(desk, files, _):
    """A program without the bundled weights, which lie beside the build tree: tools that need others say how to get them."""
    folder = os.path.join(os.path.dirname(os.path.dirname(files[0])), "alone")
    for name in ("photos", "models"):
        os.makedirs(os.path.join(folder, name))
    alone = Server(shutil.copy(os.path.join(ROOT, desk.server.command[0]), folder), folder, cwd=folder)
    try:
        desk.page.goto(alone.address + "#generate")
        desk.page.get_by_text("Images from prompts need a generator, and none is here yet.").wait_for()
        desk.page.get_by_text("zenith pull z-image-turbo", exact=True).wait_for()
        assert desk.page.locator("main button.main").count() == 0, "no button that cannot work"
        desk.press("Check again")
        desk.page.get_by_text("zenith pull z-image-turbo", exact=True).wait_for()
    finally:
        alone.stop()


def only_bundled_weights(desk, files, _):
    """What a newcomer sees: every tool works with the weights that come with the program."""
    folder = os.path.join(os.path.dirname(os.path.dirname(files[0])), "fresh")
    for name in ("photos", "models"):
        os.makedirs(os.path.join(folder, name))
    fresh = Server(desk.server.command[0], folder)
    try:
        desk.page.goto(fresh.address + "#generate")
        desk.page.get_by_text("Portraits look like photos").wait_for()  # what zenith-mini can draw, and what it cannot
        desk.press("a portrait of a man with glasses")
        assert desk.page.get_by_label("Prompt", exact=True).input_value() == "a portrait of a man with glasses", "an example fills in the prompt"
        desk.press("Generate")
        desk.results(1)
        assert desk.page.locator("main figure img").first.evaluate("image => image.naturalWidth") == 128, "the size of the bundled generator"
        assert "zenith-mini" in desk.page.locator("main figcaption").first.inner_text()
        assert desk.page.locator("main figcaption .remark").count() == 0, "nothing to remark"
        desk.page.get_by_text("Start from an image", exact=True).click()
        desk.page.get_by_label("An image to start from", exact=True).set_input_files(files[0])
        desk.page.get_by_label("Prompt", exact=True).fill("a red fox")
        desk.press("Generate")
        desk.results(2)
        assert desk.page.locator("main figure img").first.evaluate("image => image.naturalWidth") == 128, "also from an image"
        remarks = desk.page.locator("main figure").first.locator(".remark").all_inner_texts()
        assert len(remarks) == 2 and "does not understand" in remarks[1], remarks
        desk.page.get_by_role("link", name="Edit", exact=True).click()
        desk.press("Try an example")  # a portrait that zenith-mini draws
        desk.page.locator(".drop li:visible img").wait_for()
        for tool, button in (("restore", "Start"), ("latents", "Encode and decode"), ("edit", "Edit"), ("video", "Start"), ("train", "Start training")):
            desk.page.get_by_role("link", name=tool.capitalize(), exact=True).click()
            desk.page.get_by_role("button", name=button, exact=True).first.wait_for()
    finally:
        fresh.stop()


CASES = [every_tool_opens, no_weights, only_bundled_weights, generate, restore, restore_settings, latents, edit, video, video_autoencoder, cut_film, models, full_size, bad_file, bad_file_is_reported_in_view, phone_shows_what_is_being_made, cancel, reload_during_job, two_tabs, train, train_on_own_photos, needs_a_key, keyboard, server_restart]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--pictures")
    arguments.add_argument("--only", help="the cases of these names, separated by commas")
    options = arguments.parse_args()
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
        import PIL  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing.name} is not installed")
        return SKIP
    if not chromium:
        print("skipped: chromium is not installed")
        return SKIP
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        files = photos(folder)
        random_models(os.path.abspath(options.program), folder)
        server = Server(os.path.abspath(options.program), folder)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            for case in CASES:
                if options.only and case.__name__ not in options.only.split(","):
                    continue
                began = time.time()
                desk = Desk(browser, server)
                try:
                    case(desk, files, options.pictures)
                except Exception:
                    print(f"{case.__name__} failed; the page said:\n{desk.page.locator('body').inner_text()}\n{desk.errors}", flush=True)
                    raise
                assert not desk.errors, desk.errors
                desk.page.close()
                print(f"{case.__name__}: passed in {time.time() - began:.1f} s", flush=True)
        finally:
            browser.close()
            code = server.stop()
        assert code == 0, f"the server ended with {code}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
