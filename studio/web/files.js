// A place to drop files on, to choose them by keyboard, or to paste an image into.
import { el } from "./dom.js";

/**
 * dropZone({label, accept, multiple, onfiles}) returns a node with `.files` (the files chosen so far) and `.clear()`.
 * The input inside it is a real file input: it works with the keyboard and with screen readers.
 */
export function dropZone({ label, accept = "image/*", multiple = false, onfiles = () => {} }) {
  const list = el("ul", { "aria-label": "Files" });
  const chooser = el("input", { type: "file", accept, multiple, "aria-label": label, onchange: () => take(chooser.files) });
  const zone = el("div", {
    class: "drop",
    ondragover: (event) => { event.preventDefault(); zone.classList.add("over"); },
    ondragleave: () => zone.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); zone.classList.remove("over"); take(event.dataTransfer.files); },
    onpaste: (event) => take(event.clipboardData.files),
  }, el("p", {}, label), chooser, list);
  zone.files = [];
  zone.clear = () => { zone.files = []; chooser.value = ""; list.replaceChildren(); };

  function take(files) {
    if (!files.length) return;
    zone.files = multiple ? [...files] : [files[0]];
    list.replaceChildren(...zone.files.map((file) => el("li", {}, file.name)));
    onfiles(zone.files);
  }
  return zone;
}

/** Saves a blob or an address under a name. */
export function download(source, name) {
  const url = typeof source === "string" ? source : URL.createObjectURL(source);
  el("a", { href: url, download: name }).click();
  if (typeof source !== "string") setTimeout(() => URL.revokeObjectURL(url), 10000);
}
