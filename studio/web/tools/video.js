// A clip to latents and back, or restored, shown beside the original; one scrubber moves both, frame by frame.
import { choice, el, field, range, select } from "../dom.js";
import { download, dropZone, exampleClip } from "../files.js";
import { results, run } from "../job.js";
import { figure, missing, modelChoice, panel, withRemarks } from "../panel.js";

export const title = "Video";
export const hint = "Encode a short clip and decode it again, restore it, or enlarge it; the scrubber moves the original and the result together.";

const FRAME_BY_FRAME = "each frame by itself";
const isLatent = (file) => /\.(safetensors|npy|latent)$/i.test(file.name);
const player = (src) => el("video", { src, muted: true, playsinline: true, preload: "auto", loop: true });

/**
 * A GIF or animated WebP, frame by frame: show(i) draws frame i of `frames`. Browsers decode frames of images for pages of this computer or of
 * HTTPS only; elsewhere the image plays by itself.
 */
function animation(clip, src, frames) {
  const image = el("img", { src, alt: "Original" }), canvas = el("canvas", { role: "img", "aria-label": "Original" });
  let decoder = null, wanted = 0;
  async function draw(i) {
    const { image: frame } = await decoder.decode({ frameIndex: Math.floor(((i + 0.5) / frames) * decoder.tracks.selectedTrack.frameCount) });
    if (i === wanted) {
      [canvas.width, canvas.height] = [frame.displayWidth, frame.displayHeight];
      canvas.getContext("2d").drawImage(frame, 0, 0);
      canvas.dataset.frame = i + 1;
    }
    frame.close();
  }
  async function open() {
    if (!globalThis.ImageDecoder || !await ImageDecoder.isTypeSupported(clip.type)) return;
    const found = new ImageDecoder({ data: await clip.arrayBuffer(), type: clip.type });
    await found.tracks.ready; // all bytes are here, and so is the number of frames
    decoder = found;
    await draw(wanted);
    image.replaceWith(canvas);
  }
  open().catch(() => { decoder = null; });
  const show = (i) => {
    wanted = i;
    if (decoder) draw(i).catch(() => {});
  };
  return { node: image, show };
}

/** The original, if there is one, is a video or an animated image; the result is a video. */
function withScrubber(clip, after, frames, label) {
  const before = clip && URL.createObjectURL(clip), result = player(after);
  const moving = clip?.type.startsWith("image/") ? animation(clip, before, frames) : null;
  const original = moving ? moving.node : clip && player(before);
  const players = [original, result].filter((node) => node?.play);
  const position = el("output", {}, `1 of ${frames}`);
  const frame = () => Math.min(frames - 1, Math.floor((result.currentTime / (result.duration || 1)) * frames));
  let shown = 0;
  const say = (i) => {
    if (i !== shown) moving?.show(i);
    shown = i;
    position.textContent = `${i + 1} of ${frames}`;
  };
  const scrub = el("input", { type: "range", min: 0, max: frames - 1, step: 1, value: 0, "aria-label": "Frame of the clip", oninput: () => {
    const at = ((Number(scrub.value) + 0.5) / frames) * (result.duration || 0); // recordings of browsers do not state their duration
    players.forEach((one) => { one.pause(); one.currentTime = at; });
    say(Number(scrub.value));
  } });
  const play = el("button", { type: "button", onclick: () => {
    const paused = result.paused;
    players.forEach((one) => (paused ? one.play() : one.pause()));
  } }, "Play");
  const follow = () => {
    if (result.paused) return;
    scrub.value = frame();
    say(frame());
    requestAnimationFrame(follow);
  };
  result.addEventListener("play", () => { play.textContent = "Pause"; follow(); });
  result.addEventListener("pause", () => { play.textContent = "Play"; });
  const side = (text, node) => el("div", {}, el("p", { class: "soft" }, text), node);
  return el("div", {}, el("div", { class: original ? "sides" : undefined }, original && side("Original", original), side(label, result)),
    el("div", { class: "row scrub" }, play, scrub, position));
}

/** Video autoencoders first; the others say what they do. */
function codecChoice(models) {
  const able = models.filter((model) => model.tasks?.includes("clip"));
  const options = [true, false].flatMap((video) => able.filter((model) => (model.kind === "video") === video)
    .map(({ name }) => [name, video ? name : `${name} (${FRAME_BY_FRAME})`]));
  return field("Model", select("model", options));
}

const WAYS = { clip: ["Latents", "Decoded"], restore: ["Restore", "Restored"], upscale: ["Enlarge", "Enlarged"] };

export function show(models, { published }) {
  const able = Object.keys(WAYS).filter((task) => models.some((model) => model.tasks?.includes(task)));
  if (!able.length) return missing("Clips need an autoencoder, and none is here yet.", "taew2_1", published);

  const zone = dropZone({ label: "A clip (MP4, WebM, GIF), or its latent", accept: "video/*,image/gif,image/webp,.mkv,.safetensors,.npy,.latent", example: exampleClip });
  const settings = {
    clip: el("div", { class: "stack" }, codecChoice(models), el("p", { class: "soft" },
      "An image autoencoder codes the frames one by one, without compression in time. Video autoencoders: ", el("code", {}, "zenith pull taew2_1"))),
    restore: el("div", { class: "stack" }, modelChoice(models, "restore"), range("Strength", "strength", { min: 0.05, max: 1, step: 0.05, value: 1 })),
    upscale: el("div", { class: "fields" }, modelChoice(models, "upscale"), field("Scale", select("scale", [["2", "2 times"], ["4", "4 times"]]))),
  };
  const turn = (task) => able.forEach((other) => { settings[other].hidden = other !== task; });
  turn(able[0]);

  async function saveLatent(clip, model, button, caption) {
    button.disabled = true;
    try {
      const job = await run("clip", { to: "latent", model }, { files: [clip], title: `latent of ${clip.name}` });
      const [latent] = await results(job);
      download(latent.blob, latent.name);
      withRemarks(caption, job);
    } finally { button.disabled = false; }
  }

  function check(clip, task) {
    if (!clip) throw new Error("Choose a clip.");
    if (task !== "clip" && (isLatent(clip) || clip.type.startsWith("image/")))
      throw new Error(`${clip.name} is not a video file; only those are restored and enlarged here.`);
  }

  return panel({
    controls: [zone, choice("What to do", "task", able.map((task) => [task, WAYS[task][0]]), turn), ...able.map((task) => settings[task])],
    button: "Start",
    empty: "The result appears here beside the original.",
    run: async ({ task, ...options }, place) => {
      const [clip] = zone.files;
      check(clip, task);
      const wait = place.pending(clip.name);
      const job = await run(task, task === "clip" ? { to: "video", ...options } : options, { files: [clip], title: clip.name, onprogress: wait.progress });
      const [file] = await results(job);
      const score = Number.isFinite(job.facts.psnr) ? `, ${job.facts.psnr.toFixed(1)} dB` : "";
      const caption = withRemarks(el("span", {}, el("strong", {}, clip.name), ` ${file.width}×${file.height}, ${job.facts.frames} frames${score}`), job);
      const shown = figure(withScrubber(isLatent(clip) ? null : clip, file.url, job.facts.frames, WAYS[task][1]), caption, file,
        task === "clip" && !isLatent(clip) && el("button", { type: "button", onclick: (event) => saveLatent(clip, options.model, event.currentTarget, caption) }, "Save latent"));
      shown.className = "wide";
      wait.replaceWith(shown);
    },
  });
}
