// A clip through a video autoencoder, shown beside the original; one scrubber moves both.
import { el } from "../dom.js";
import { dropZone } from "../files.js";
import { results, run } from "../job.js";
import { figure, missing, modelChoice, panel } from "../panel.js";

export const title = "Video";
export const hint = "Encode a short clip and decode it again; the scrubber moves the original and the result together.";

/** The original is an image if it is a GIF, which plays by itself. */
function sideBySide(clip, after) {
  const player = (src) => el("video", { src, muted: true, playsinline: true, preload: "auto", loop: true });
  const before = URL.createObjectURL(clip);
  const original = clip.type.startsWith("image/") ? el("img", { src: before, alt: "Original" }) : player(before);
  const result = player(after), players = [original, result].filter((node) => node.play);
  const time = el("output", {}, "0.00 s");
  const scrub = el("input", { type: "range", min: 0, max: 1, step: 0.001, value: 0, "aria-label": "Position in the clip",
    oninput: () => players.forEach((player) => { player.pause(); player.currentTime = scrub.value * (player.duration || 0); }) });
  const play = el("button", { type: "button", onclick: () => {
    const paused = result.paused;
    players.forEach((player) => (paused ? player.play() : player.pause()));
  } }, "Play");
  result.addEventListener("play", () => { play.textContent = "Pause"; });
  result.addEventListener("pause", () => { play.textContent = "Play"; });
  result.addEventListener("timeupdate", () => {
    time.textContent = `${result.currentTime.toFixed(2)} s`;
    if (document.activeElement !== scrub || !result.paused) scrub.value = result.currentTime / (result.duration || 1);
  });
  return el("div", {}, el("div", { class: "sides" }, el("div", {}, el("p", { class: "soft" }, "Original"), original), el("div", {}, el("p", { class: "soft" }, "Decoded"), result)),
    el("div", { class: "row scrub" }, play, scrub, time));
}

export function show(models, { published }) {
  if (!models.some((model) => model.tasks?.includes("clip")))
    return missing("Clips need a video autoencoder, and none is here yet.", "taew2_1", published);

  const zone = dropZone({ label: "A clip (MP4, WebM, GIF)", accept: "video/*,image/gif,image/webp" });
  return panel({
    controls: [zone, modelChoice(models, "clip")],
    button: "Encode and decode",
    empty: "The decoded clip appears here beside the original.",
    run: async (settings, place) => {
      const [clip] = zone.files;
      if (!clip) throw new Error("Choose a clip.");
      const wait = place.pending(clip.name);
      const [file] = await results(await run("clip", { to: "video", ...settings }, { files: [clip], title: clip.name, onprogress: wait.progress }));
      const shown = figure(sideBySide(clip, file.url), el("strong", {}, clip.name), file);
      shown.className = "wide";
      wait.replaceWith(shown);
    },
  });
}
