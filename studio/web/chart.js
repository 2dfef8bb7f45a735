// Line charts as SVG: curves of a training run, rates against the machine's ceilings.
const NS = "http://www.w3.org/2000/svg";

function shape(tag, attributes, text) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const short = (v) => (Math.abs(v) >= 1e4 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(1) : String(Number(v.toPrecision(3))));

/** chart(points, {label, log}): points are [x, y] pairs in rising x; log draws y on a logarithmic scale. */
export function chart(points, { label, log = false, width = 560, height = 220 }) {
  const svg = shape("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const usable = points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!log || y > 0));
  svg.append(shape("text", { x: 8, y: 14 }, label));
  if (usable.length < 2) { svg.append(shape("text", { x: 8, y: height / 2 }, "No values yet")); return svg; }
  const scale = log ? Math.log10 : (v) => v;
  const xs = usable.map(([x]) => x), ys = usable.map(([, y]) => scale(y));
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const left = 56, right = width - 10, top = 24, bottom = height - 22;
  const px = (x) => left + ((x - x0) / (x1 - x0 || 1)) * (right - left);
  const py = (y) => bottom - ((scale(y) - y0) / (y1 - y0 || 1)) * (bottom - top);
  for (let i = 0; i <= 3; i++) {
    const s = y0 + ((y1 - y0) * i) / 3, y = bottom - ((bottom - top) * i) / 3;
    svg.append(shape("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
      shape("text", { x: 4, y: y + 4 }, short(log ? 10 ** s : s)));
  }
  svg.append(shape("text", { x: left, y: height - 6 }, short(x0)),
    shape("text", { x: right, y: height - 6, "text-anchor": "end" }, short(x1)),
    shape("polyline", { class: "curve", points: usable.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" ") }));
  return svg;
}
