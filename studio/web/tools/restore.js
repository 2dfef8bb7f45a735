// Removes noise and JPEG artefacts, or enlarges. Many photos at once; each gets its own before/after slider.
import { enlarge, slider } from "../compare.js";
import { choice, el, field, range, select } from "../dom.js";
import { dropZone, exampleImage } from "../files.js";
import { Cancelled, results, run } from "../job.js";
import { figure, modelChoice, panel } from "../panel.js";

export const title = "Restore";
export const hint = "Remove noise, JPEG artefacts and blur from photos, or enlarge them.";

const AT_ONCE = 8; // jobs in the queue; other clients want turns too

/** work(item) for each item, a few at a time; the errors. */
async function inTurns(items, work) {
  const left = [...items], errors = [];
  const lane = async () => {
    for (let item; (item = left.shift());) await work(item).catch((error) => { if (!(error instanceof Cancelled)) errors.push(error.message); });
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return errors;
}

export function show(models) {
  const zone = dropZone({ label: "Photos", multiple: true, example: () => exampleImage(true) });
  const tasks = [["restore", "Restore"]];
  if (models.some((model) => model.tasks?.includes("upscale"))) tasks.push(["upscale", "Enlarge"]);
  const restoring = el("div", { class: "stack" }, modelChoice(models, "restore"), range("Strength", "strength", { min: 0.05, max: 1, step: 0.05, value: 1 }));
  const enlarging = el("div", { class: "fields", hidden: true }, modelChoice(models, "upscale"), field("Scale", select("scale", [["2", "2 times"], ["4", "4 times"]])));
  const count = el("p", { class: "soft", role: "status" });
  const desk = panel({
    controls: [zone, choice("What to do", "task", tasks, (task) => {
      restoring.hidden = task !== "restore";
      enlarging.hidden = task !== "upscale";
    }), restoring, enlarging],
    button: "Start",
    empty: "Restored photos appear here, each with a slider between before and after.",
    run: async ({ task, ...settings }, place) => {
      if (!zone.files.length) throw new Error("Choose at least one photo.");
      let done = 0;
      const photos = zone.files, tell = () => { count.textContent = photos.length > 1 ? `${done} of ${photos.length} photos` : ""; };
      const cards = new Map([...photos].reverse().map((photo) => [photo, place.pending(photo.name, URL.createObjectURL(photo))]));
      tell();
      const bad = await inTurns(photos, async (photo) => {
        const wait = cards.get(photo), before = wait.querySelector("img").src;
        try {
          const job = await run(task, settings, { files: [photo], title: photo.name, onprogress: wait.progress });
          const [file] = await results(job);
          wait.replaceWith(figure(slider(before, file.url), el("span", {}, el("strong", {}, photo.name), ` ${file.width}×${file.height}`), file,
            enlarge(before, file.url, file.name, file.blob)));
          done++;
        } finally {
          wait.remove();
          tell();
        }
      });
      if (bad.length) throw new Error(bad.join("\n"));
    },
  });
  desk.form.append(count);
  return desk;
}
