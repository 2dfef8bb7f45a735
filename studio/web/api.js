// The server's interface, as this page uses it. Everything that knows an address is in this file.
const KEY = "zenith.key";

export const key = { get: () => localStorage.getItem(KEY) ?? "", set: (value) => localStorage.setItem(KEY, value) };

/** An answer that is no success; the message is the server's sentence. */
export class ServerError extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function call(path, options = {}) {
  const headers = new Headers(options.headers);
  if (key.get()) headers.set("Authorization", `Bearer ${key.get()}`);
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch {
    throw new ServerError(0, "The server does not answer. Is zenith serve running?");
  }
  if (!answer.ok) {
    const body = await answer.json().catch(() => ({}));
    const error = body.error?.message ?? body.error ?? `The server answered ${answer.status}.`;
    throw new ServerError(answer.status, error);
  }
  return answer;
}

const json = async (path, options) => (await call(path, options)).json();
const post = (path, body) => json(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export const health = () => json("/healthz");
export const models = () => json("/api/models");

/** Sends a job: its model and prompt, the options of the command of that name, and its files in order. */
export function createJob(task, { model, prompt, ...options }, files = [], mask) {
  const form = new FormData();
  form.set("task", task);
  if (model) form.set("model", model);
  if (prompt) form.set("prompt", prompt);
  form.set("options", JSON.stringify(options));
  for (const file of files) form.append("file", file, file.name);
  if (mask) form.append("mask", mask, mask.name);
  return json("/api/jobs", { method: "POST", body: form });
}
export const listJobs = () => json("/api/jobs");
export const getJob = (id) => json(`/api/jobs/${id}`);
export const cancelJob = (id) => call(`/api/jobs/${id}`, { method: "DELETE" });
export const fetchBlob = async (path) => (await call(path)).blob();
export const loras = () => json("/sdapi/v1/loras");
export const attributes = (model) => json(`/api/models/${encodeURIComponent(model)}/attributes`);

export const recipes = () => json("/api/recipes");
export const folders = () => json("/api/data");
export const listRuns = () => json("/api/runs");
export const getRun = (name) => json(`/api/runs/${name}`);
export const metrics = (name, after) => json(`/api/runs/${name}/metrics?after=${after}`);
/** Starts a run: on the folder that the settings name, or on these images. */
export function startRun(settings, files = []) {
  if (!files.length) return post("/api/runs", settings);
  const form = new FormData();
  for (const [name, value] of Object.entries(settings)) for (const one of [value].flat()) form.append(name, one);
  for (const file of files) form.append("file", file, file.name);
  return json("/api/runs", { method: "POST", body: form });
}
export const stopRun = (name) => post(`/api/runs/${name}/stop`, {});
export const resumeRun = (name) => post(`/api/runs/${name}/resume`, {});
export const sampleOf = (name, file) => fetchBlob(`/api/runs/${name}/samples/${encodeURIComponent(file)}`);

/**
 * Reads server-sent events with fetch (EventSource cannot send a key). Calls onevent(name, data) for each event until
 * the stream ends.
 */
export async function events(path, onevent) {
  let buffer = "";
  const reader = (await call(path)).body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const name = lines.find((line) => line.startsWith("event:"))?.slice(6).trim() ?? "message";
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
      if (data) onevent(name, JSON.parse(data));
    }
  }
}
