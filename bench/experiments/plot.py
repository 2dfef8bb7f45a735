"""Shared by the experiments: pages, charts and tables for docs/results, and the line that describes machine and command
of a measurement.

    import plot
    plot.lines("x.png", "title", "x", "y", {"series": ([1, 2, 3], [4, 5, 6])})
    plot.write("x", plot.table(["what", "ms"], [["a", 1.5]]))

$ZENITH_RESULTS replaces the folder docs/results. Without matplotlib there are no charts.
"""
import os
import platform
import statistics
import subprocess
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
except ImportError:
    pyplot = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULTS = os.environ.get("ZENITH_RESULTS") or os.path.join(ROOT, "docs", "results")
COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f"]


def write(name, text):
    """Writes the page of an experiment, also to stdout."""
    os.makedirs(RESULTS, exist_ok=True)
    with open(os.path.join(RESULTS, name + ".md"), "w") as f:
        f.write(text.rstrip() + "\n")
    print(text)


def _drawn(chart):
    """Leaves out a chart if matplotlib is missing."""
    def draw(file, *arguments, **more):
        if pyplot:
            chart(file, *arguments, **more)
        else:
            print(f"{file} was not drawn: there is no matplotlib", file=sys.stderr)
    return draw


def _figure(title, xlabel, ylabel):
    figure, axes = pyplot.subplots(figsize=(7.2, 4.2), dpi=110)
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(True, alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _save(figure, name):
    os.makedirs(RESULTS, exist_ok=True)
    figure.tight_layout()
    figure.savefig(os.path.join(RESULTS, name), metadata={"Software": None})
    pyplot.close(figure)


@_drawn
def lines(file, title, xlabel, ylabel, series, logx=False, logy=False, limits=None, mark=None):
    """series: {name: (xs, ys)} or {name: (xs, ys, style)}; mark: a horizontal line (value, text)."""
    figure, axes = _figure(title, xlabel, ylabel)
    for (name, data), colour in zip(series.items(), COLOURS * 4):
        axes.plot(data[0], data[1], data[2] if len(data) > 2 else "o-", color=colour, label=name, markersize=4)
    if mark:
        axes.axhline(mark[0], color="#444444", linestyle=":", linewidth=1)
        axes.annotate(mark[1], (axes.get_xlim()[0], mark[0]), xytext=(4, 3), textcoords="offset points", fontsize=8)
    if logx:
        axes.set_xscale("log")
    if logy:
        axes.set_yscale("log")
    if limits:
        axes.set_ylim(*limits)
    axes.legend(fontsize=8, frameon=False)
    _save(figure, file)


@_drawn
def bars(file, title, ylabel, groups, series, logy=False, below=False):
    """groups: names along the axis; series: {name: values, one for each group}; below: the legend goes below."""
    figure, axes = _figure(title, "", ylabel)
    width = 0.8 / len(series)
    for i, ((name, values), colour) in enumerate(zip(series.items(), COLOURS * 4)):
        places = [g + (i - (len(series) - 1) / 2) * width for g in range(len(groups))]
        drawn = axes.bar(places, [v or 0 for v in values], width, color=colour, label=name)
        axes.bar_label(drawn, [f"{v:.3g}" if v else "" for v in values], fontsize=7, padding=1,
                       rotation=90 if len(series) > 6 else 0)
    axes.set_xticks(range(len(groups)), groups)
    axes.margins(y=0.12 if len(series) > 6 else 0.05)
    axes.grid(False, axis="x")
    if logy:
        axes.set_yscale("log")
    if below:
        axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=4)
    else:
        axes.legend(fontsize=8, frameon=False)
    _save(figure, file)


def table(head, rows):
    """A Markdown table; numbers are right-aligned."""
    def right(column):
        return all(not isinstance(row[column], str) or not row[column] or row[column][0] in "-0123456789" for row in rows)
    text = [head] + [["---:" if right(i) else "---" for i in range(len(head))]] + rows
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in text) + "\n"


def roofline(entry, mflop, mbyte, ms):
    """Minimum time, from operations at peak or bytes at full bandwidth, whichever is longer, as a share of the time."""
    return f"{100 * max(mflop / entry['peak_gflops'], mbyte / entry['bandwidth_gbs']) / ms:.0f} %"


def digits(value):
    """Three digits, or all digits before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(values):
    """'median (least to most)'"""
    return f"{digits(statistics.median(values))} ({digits(min(values))} to {digits(max(values))})"


def cpu():
    try:
        text = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
        return next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("Model name"))
    except (OSError, StopIteration, subprocess.CalledProcessError):
        return platform.machine()


def machine(threads):
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return f"{cpu()}, {len(os.sched_getaffinity(0))} CPUs, {threads} thread{'s' if threads != 1 else ''}, commit {done.stdout.strip() or 'unknown'}"
