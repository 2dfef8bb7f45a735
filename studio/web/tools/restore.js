// Removes noise and JPEG artefacts, or enlarges. Many photos at once; each gets its own before/after slider.
import { slider } from "../compare.js";
import { el, field, select } from "../dom.js";
import { dropZone } from "../files.js";
import { results, run } from "../job.js";
import { figure, modelChoice, number, panel } from "../panel.js";

export const title = "Restore";
export const hint = "Drop photos with noise, JPEG artefacts or blur. The slider shows each before and after; 100 % shows real pixels.";

export function show(models) {
  const zone = dropZone({ label: "Photos", multiple: true });
  const tasks = [["restore", "Restore"]];
  if (models.some((model) => model.tasks?.includes("upscale"))) tasks.push(["upscale", "Enlarge"]);
  let choice = modelChoice(models, "restore");
  const what = select("task", tasks, { onchange: () => {
    const next = modelChoice(models, what.value);
    choice.replaceWith(next);
    choice = next;
  } });
  return panel({
    controls: [zone, el("div", { class: "fields" },
      field("What to do", what),
      choice,
      number("Strength", "strength", { min: 0.05, max: 1, step: 0.05, placeholder: "1" }),
      number("Scale (when enlarging)", "scale", { min: 2, max: 4, step: 2, placeholder: "2" }))],
    button: "Start",
    run: async ({ task, ...settings }, place) => {
      if (!zone.files.length) throw new Error("Choose at least one photo.");
      const wanted = task === "upscale" ? { model: settings.model, scale: settings.scale } : { model: settings.model, strength: settings.strength };
      const ends = await Promise.allSettled(zone.files.map(async (photo) => {
        const [file] = await results(await run(task, wanted, { files: [photo], title: photo.name }));
        place(figure(slider(URL.createObjectURL(photo), file.url), photo.name, file));
      }));
      const bad = ends.filter((end) => end.status === "rejected").map((end) => end.reason.message);
      if (bad.length) throw new Error(bad.join("\n"));
    },
  });
}
