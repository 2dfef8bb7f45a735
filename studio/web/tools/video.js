// A clip through a video autoencoder, shown beside the original; one scrubber moves both.
import { el } from "../dom.js";
import { dropZone } from "../files.js";
import { results, run } from "../job.js";
import { figure, modelChoice, panel } from "../panel.js";

export const title = "Video";
export const hint = "Drop a short clip. It is encoded and decoded; the scrubber moves the original and the result together.";

function sideBySide(before, after) {
  const players = [before, after].map((src) => el("video", { src, muted: true, playsinline: true, preload: "auto" }));
  const scrub = el("input", { type: "range", min: 0, max: 1, step: 0.001, value: 0, "aria-label": "Position in the clip",
    oninput: () => players.forEach((player) => { player.currentTime = scrub.value * (player.duration || 0); }) });
  const play = el("button", { type: "button", onclick: () => players.forEach((player) => (player.paused ? player.play() : player.pause())) }, "Play / pause");
  players[1].addEventListener("timeupdate", () => { scrub.value = players[1].currentTime / (players[1].duration || 1); });
  return el("div", {}, el("div", { class: "fields" }, players), el("div", { class: "row" }, scrub, play));
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
      place(figure(sideBySide(URL.createObjectURL(clip), file.url), clip.name, file));
    },
  });
}
