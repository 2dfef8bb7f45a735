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

/**
 * roofline(profile): each layer of a profile as a dot, at the operations it needs for each byte and the rate it reaches;
 * the larger its share of the time, the larger the dot. The line is what the machine can do.
 */
export function roofline({ layers, peak_gflops: peak, bandwidth }, { label, width = 720, height = 360 }) {
  const svg = shape("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const dots = layers.filter(({ gflop_done: done, mbytes, ms }) => done > 0 && mbytes > 0 && ms > 0)
    .map((layer) => ({ ...layer, x: (layer.gflop_done * 1e3) / layer.mbytes, y: (layer.gflop_done * 1e3) / layer.ms }));
  svg.append(shape("text", { x: 8, y: 14 }, label));
  if (!dots.length) return svg;
  const whole = layers.reduce((sum, { ms }) => sum + ms, 0);
  const xs = [...dots.map(({ x }) => x), peak / bandwidth], ys = [...dots.map(({ y }) => y), peak];
  const range = (values) => [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
  const [x0, x1] = range(xs), [y0, y1] = range(ys);
  const left = 60, right = width - 14, top = 24, bottom = height - 40;
  const px = (x) => left + ((Math.log10(x) - x0) / (x1 - x0 || 1)) * (right - left);
  const py = (y) => bottom - ((Math.log10(y) - y0) / (y1 - y0 || 1)) * (bottom - top);
  for (let e = y0; e <= y1; e++) svg.append(shape("line", { class: "grid", x1: left, x2: right, y1: py(10 ** e), y2: py(10 ** e) }),
    shape("text", { x: 4, y: py(10 ** e) + 4 }, short(10 ** e)));
  for (let e = x0; e <= x1; e++) svg.append(shape("line", { class: "grid", x1: px(10 ** e), x2: px(10 ** e), y1: top, y2: bottom }),
    shape("text", { x: px(10 ** e), y: bottom + 16, "text-anchor": "middle" }, short(10 ** e)));
  const low = Math.max(10 ** x0, 10 ** y0 / bandwidth); // where the slope enters the picture
  const roof = [[low, bandwidth * low], [peak / bandwidth, peak], [10 ** x1, peak]];
  svg.append(shape("polyline", { class: "roof", points: roof.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" ") }),
    shape("text", { x: right, y: py(peak) - 5, "text-anchor": "end" }, `${Math.round(peak)} GFLOP/s, ${Math.round(bandwidth)} GB/s`),
    shape("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, "operations for each byte"),
    shape("text", { x: left + 4, y: top + 8 }, "GFLOP/s"));
  for (const dot of dots) {
    const circle = shape("circle", { class: "dot", cx: px(dot.x).toFixed(1), cy: py(dot.y).toFixed(1), r: (3 + 24 * Math.sqrt(dot.ms / whole)).toFixed(1) });
    circle.append(shape("title", {}, `${dot.name}, ${dot.kernel}: ${short(dot.ms)} ms, ${Math.round((100 * dot.ms) / whole)} % of the time, ${Math.round(100 * dot.roofline)} % of the roofline`));
    svg.append(circle);
  }
  return svg;
}
