// Jobs as cards beside the tools: progress, time left, preview, Cancel. They survive a reload of the page,
// because the server keeps them; a card asks the server again until its job has ended.
import * as api from "./api.js";
import { announce, el, seconds } from "./dom.js";

const ENDED = ["done", "failed", "cancelled"];
const shelf = () => document.getElementById("jobs");
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function card(job, title) {
  const state = el("p", { class: "soft" }, job.state ?? "queued");
  const bar = el("progress", { max: 1, "aria-label": `Progress of ${title}` });
  const preview = el("img", { alt: "Preview", hidden: true });
  const cancel = el("button", { type: "button", onclick: async () => {
    cancel.disabled = true;
    await api.cancelJob(job.id).catch((error) => { state.textContent = error.message; });
  } }, "Cancel");
  const node = el("article", { class: "job" }, el("h3", {}, title), bar, state, cancel, preview);
  shelf().prepend(node);

  return {
    say(text) { bar.removeAttribute("value"); state.textContent = text; },
    progress({ fraction, step, total, stage, seconds_left: left }) {
      if (fraction > 0) bar.value = fraction; else bar.removeAttribute("value");
      state.textContent = [stage, total ? `${step} of ${total}` : "", left ? `${seconds(left)} left` : ""].filter(Boolean).join(", ") || "working";
    },
    async preview(address) {
      const old = preview.src;
      preview.src = URL.createObjectURL(await api.fetchBlob(address));
      preview.hidden = false;
      if (old) URL.revokeObjectURL(old);
    },
    end(name, sentence) {
      bar.value = name === "done" ? 1 : 0;
      state.className = name === "failed" ? "bad" : "soft";
      state.textContent = sentence ?? name;
      cancel.replaceWith(el("button", { type: "button", onclick: () => node.remove() }, "Remove"));
      preview.remove();
      announce(`${title}: ${sentence ?? name}`);
    },
  };
}

/** Follows a job to its end. Returns its last record; throws the server's sentence where it failed. */
async function follow(job, title) {
  const view = card(job, title);
  let last = job;
  while (!ENDED.includes(last.state)) {
    try {
      await api.events(`/api/jobs/${job.id}/events`, (name, data) => {
        if (name === "progress") view.progress(data);
        if (name === "preview") view.preview(data.url).catch(() => {}); // the job may have ended meanwhile
        if (name === "queued") view.say(data.position ? `waiting, ${data.position} before it` : "waiting");
      });
      last = await api.getJob(job.id);
    } catch (error) {
      if (error.status === 404) { view.end("failed", "The server no longer knows this job."); throw error; }
      if (error.status) { view.end("failed", error.message); throw error; }
      view.say("waiting for the server");
      await pause(1000);
      continue;
    }
    if (!ENDED.includes(last.state)) await pause(200);
  }
  view.end(last.state, last.error ?? undefined);
  if (last.state !== "done") throw new api.ServerError(0, last.error ?? `${title} was cancelled.`);
  return last;
}

/** Sends a job and follows it. */
export async function run(task, settings, { files = [], mask, title = task } = {}) {
  return follow(await api.createJob(task, settings, files, mask), title);
}

/** Shows the jobs that the server already works on, after a reload or in a second tab. */
export async function resume() {
  const { jobs = [] } = await api.listJobs();
  for (const job of jobs) if (!ENDED.includes(job.state)) follow(job, job.task).catch(() => {});
}

/** The results of a finished job as objects {name, type, blob, url}. */
export const results = (job) => Promise.all(job.results.map(async (result) => {
  const blob = await api.fetchBlob(result.url);
  return { ...result, blob, url: URL.createObjectURL(blob) };
}));
