// A clip through a video autoencoder, shown beside the original; one scrubber moves both.
import { el } from "../dom.js";
import { dropZone } from "../files.js";
import { results, run } from "../job.js";
import { figure, modelChoice, panel } from "../panel.js";

export const title = "Video";
export const hint = "Drop a short clip. It is encoded and decoded; the scrubber moves the original and the result together.";

/** The original is an image if it is a GIF, which plays by itself. */
function sideBySide(clip, after) {
  const player = (src) => el("video", { src, muted: true, playsinline: true, preload: "auto" });
  const before = URL.createObjectURL(clip);
  const original = clip.type.startsWith("image/") ? el("img", { src: before, alt: "Original" }) : player(before);
  const result = player(after), players = [original, result].filter((node) => node.play);
  const scrub = el("input", { type: "range", min: 0, max: 1, step: 0.001, value: 0, "aria-label": "Position in the clip",
    oninput: () => players.forEach((player) => { player.currentTime = scrub.value * (player.duration || 0); }) });
  const play = el("button", { type: "button", onclick: () => players.forEach((player) => (player.paused ? player.play() : player.pause())) }, "Play / pause");
  result.addEventListener("timeupdate", () => { scrub.value = result.currentTime / (result.duration || 1); });
  return el("div", {}, el("div", { class: "fields" }, original, result), el("div", { class: "row" }, scrub, play));
}

export function show(models) {
  if (!models.some((model) => model.tasks?.includes("clip")))
    return el("p", {}, "No video autoencoder was found. zenith pull taew2_1 fetches one (22 MB); docs/models/wan.md lists others. Reload this page when it is there.");

  const zone = dropZone({ label: "A clip (MP4, WebM, GIF)", accept: "video/*,image/gif,image/webp" });
  return panel({
    controls: [zone, el("div", { class: "fields" }, modelChoice(models, "clip"))],
    button: "Encode and decode",
    run: async (settings, place) => {
      const [clip] = zone.files;
      if (!clip) throw new Error("Choose a clip.");
      const [file] = await results(await run("clip", { to: "video", ...settings }, { files: [clip], title: clip.name }));
      const shown = figure(sideBySide(clip, file.url), clip.name, file);
      shown.className = "wide";
      place(shown);
    },
  });
}
