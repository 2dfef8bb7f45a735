"""bench/experiments/latency: encode and decode of the TAESD family at 512x512, all networks in turn.

Started by the script `latency`; writes docs/results/latency.md and latency.png. Each round runs encoder and
decoder of every network once, with warm-up. The time of a round is the median of its runs; the table shows medians over
the rounds.
"""
import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys

import plot

# preset, name in the table, time that the original reports for encode + decode, the limit (share of our TAESD's time)
NETWORKS = [("zenith-vanilla", "the original's baseline", 5644, None), ("taesd", "TAESD", None, None),
            ("zenith-std", "Standard", 2220, 0.45), ("zenith-lite", "Lite", 1455, 0.30),
            ("zenith-spectral", "Spectral", 11785, 0.50), ("zenith-r", "Zenith-R (trainable)", None, 0.35)]
PARTS = ("encode", "decode")
# channels that Spectral's linear layers transform
SPECTRAL_WIDTHS = {f"{half}.conv{i}": d for half, widths in (("enc", (64, 256, 512, 1024)), ("dec", (1024, 512, 256, 64)))
                   for i, d in enumerate(widths)}


def arguments():
    parser = argparse.ArgumentParser(prog="bench/experiments/latency")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--prefix", default="", help='put before every timed program, such as "chrt -f 10"')
    return parser.parse_args()


def bench(a, name, part, *more):
    command = [os.path.join(plot.ROOT, "build", "cli", "zenith"), "bench", "--model", "random:" + name, "--part", part,
               "--size", "512", "--threads", a.threads, "--runs", a.runs, "--json", "--quiet", *more]
    done = subprocess.run(shlex.split(a.prefix) + [str(v) for v in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"latency: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return json.loads(done.stdout)


def as_specified(name, half, row):
    """Minimum ms for a layer's operations as the network defines them, or for its bytes. They differ from the cheapest
    known form only in Spectral's linear layers: four transforms of d channels each. Some of these have so few inputs or
    outputs that one matrix product gives the same result."""
    least = row["roofline"] * row["ms"]
    d = SPECTRAL_WIDTHS.get(row["name"]) if name == "zenith-spectral" else None
    if not d:
        return least
    slots = row["gflop"] * (math.log2(d) + 0.5) / (math.log2(d) + 1)  # every second factor goes into a multiply-add
    return max(least, slots / (half["peak_gflops"] / 2) * 1e3)


def shares(a):
    """{kernel: the maximum share of its slots that its instructions can reach}, from `mixes` (AArch64 only)"""
    program = os.path.join(plot.ROOT, "build", "mixes")
    if not os.path.exists(program):
        return {}
    done = subprocess.run(shlex.split(a.prefix) + [program, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def measure(a):
    """{name: {"ms": encode + decode of each round, "min", "gflop", "mb", "floor", "stated", "limit" (ms), "peak",
    "bandwidth"}}"""
    results, share = {}, shares(a)
    for name, _, _, _ in NETWORKS:  # profiles the layers of a run; timed separately, because profiling has a small cost
        halves = [bench(a, name, part, "--profile") for part in PARTS]
        rows = [row for half in halves for row in half["layers"]]
        results[name] = {"ms": [], "min": [float("inf")] * 2, "gflop": sum(h["gflop"] for h in halves),
                         "mb": sum(row["mbytes"] for row in rows), "halves": [[], []],
                         "floor": sum(row["roofline"] * row["ms"] for row in rows),
                         "stated": sum(as_specified(name, half, row) for half in halves for row in half["layers"]),
                         "limit": sum(row["roofline"] * row["ms"] / share.get(row["kernel"], 1) for row in rows),
                         "peak": halves[0]["peak_gflops"], "bandwidth": halves[0]["bandwidth"]}
    for _ in range(a.rounds):
        for name, _, _, _ in NETWORKS:
            e = results[name]
            halves = [bench(a, name, part) for part in PARTS]
            e["ms"].append(sum(h["ms_median"] for h in halves))
            for i, half in enumerate(halves):
                e["halves"][i].append(half["ms_median"])
                e["min"][i] = min(e["min"][i], half["ms_min"])
    return results


def table(r):
    body, base = [], statistics.median(r["taesd"]["ms"])
    for name, label, original, bound in NETWORKS:
        e, ms = r[name], statistics.median(r[name]["ms"])
        body.append([label, plot.spread(e["ms"]), plot.digits(sum(e["min"])),
                     " + ".join(plot.digits(statistics.median(h)) for h in e["halves"]), f"{e['gflop']:.2f}",
                     f"{e['mb']:.0f}", f"{100 * e['floor'] / ms:.0f} %", f"{100 * e['stated'] / ms:.0f} %", f"{100 * e['limit'] / ms:.0f} %", f"{ms / base:.2f}", f"{bound:.2f}" if bound else "",
                     str(original) if original else ""])
    return plot.table(["network", "ms, median (least to most)", "ms, least", "encode + decode", "GFLOP", "MB", "of roofline", "with all that is stated", "of its instructions",
                       "of TAESD", "limit", "original's ms"], body)


def sentences(r):
    """One sentence for every claim of the original that does not hold here, and for every limit that is not met."""
    ms = {name: statistics.median(e["ms"]) for name, e in r.items()}
    base, taesd = ms["zenith-vanilla"], ms["taesd"]
    yield (f"- The original measured its networks against a baseline of its own ({r['zenith-vanilla']['gflop']:.1f} GFLOP, no activation, "
           f"never trained); the real TAESD does {r['taesd']['gflop'] / r['zenith-vanilla']['gflop']:.2f} of those operations and takes "
           f"{taesd / base:.2f} of that time here.")
    for name, label, original, _ in NETWORKS:
        if not original or name == "zenith-vanilla":
            continue
        claimed, here = 5644 / original, base / ms[name]
        told = f"{claimed:.1f} times as fast" if claimed > 1 else f"{1 / claimed:.1f} times as slow"
        verb = "is confirmed" if 0.9 < here / claimed < 1.1 else "is exceeded" if here > claimed else "is not reached"
        yield (f"- {label}: the original's result, {told} as its baseline, {verb}: with tuned convolutions and tuned transforms "
               f"it is {here:.1f} times as fast as the baseline, and {taesd / ms[name]:.1f} times as fast as the real TAESD.")
    for name, label, _, _ in NETWORKS:
        e = r[name]
        if e["floor"] < 0.7 * ms[name]:
            yield (f"- {label}: the aim of 70 % of the roofline was not reached. Its instructions alone, with data in the L1 and nothing waiting, "
                   f"would take {e['limit']:.0f} of the {ms[name]:.0f} ms, {100 * e['floor'] / e['limit']:.0f} % of the roofline; "
                   "docs/speed-log.md says what they wait for.")
    for name, label, _, bound in NETWORKS:
        if bound and ms[name] / taesd > bound:
            yield f"- {label} takes {ms[name] / taesd:.2f} of TAESD's time, more than the limit of {bound:.2f}."


def main():
    a = arguments()
    r = measure(a)
    plot.bars("latency.png", "512x512, encode + decode, fp32", "ms",
              [label.replace(" (", "\n(").replace("original's ", "original's\n") for _, label, _, _ in NETWORKS],
              {part: [statistics.median(r[name]["halves"][i]) for name, _, _, _ in NETWORKS] for i, part in enumerate(PARTS)})
    text = f"""# Latency of the TAESD family at 512x512

Made by `bench/experiments/latency`; {plot.machine(a.threads)}; fp32, random weights; peak {r['taesd']['peak']:.0f} GFLOP/s and
{r['taesd']['bandwidth']:.0f} GB/s, measured in the same run. Encode + decode of one image: median over {a.rounds} rounds of the medians of {a.runs} runs,
networks in turn.

![times](latency.png)

{table(r)}
GFLOP: exact, as if every convolution were done directly. MB: what the layers read and write once each, as they are run. of
roofline: for every layer the larger of its operations at peak and its bytes at full bandwidth, summed, over the time. Operations are
issue slots, the least that the arithmetic takes (src/ops/slots.h): a multiply-add is one, and so is an addition, a product or a comparison
that no multiply-add takes in; peak is that of multiply-adds, two FLOP a slot. with all that is stated: the same, but
Spectral's linear layers count as the four transforms that the network states, though those from or to few channels run as one product with a
matrix and need fewer operations: how fast it is for its description, not a roofline of what runs. Winograd counts its products and transforms, fp32 on the bf16
matrix unit three slots for sixteen products and three for splitting an input. of its instructions: the same with the rate that each spectral kernel's loads, arithmetic and
stores have in the L1 when nothing waits, instead of four slots a cycle (`build/mixes`; kernels that it does not list count as before).
of TAESD: time relative to TAESD. limit: the largest such ratio that the specification of this experiment allows. original's ms: what the
authors of the network reported, on their machine.

{chr(10).join(sentences(r))}
"""
    plot.write("latency", text)


if __name__ == "__main__":
    main()
