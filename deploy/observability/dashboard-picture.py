#!/usr/bin/env python3
"""Draws the main panels of deploy/observability/grafana-dashboard.json from what Prometheus said in a run of the end-to-end test.

usage: dashboard-picture.py DATA.json PICTURE.png

DATA.json is what the test `observability` writes if EDGE_DASHBOARD_DATA names the file: the result of a range query for
each query of the dashboard. Titles and units are those of the dashboard. `make dashboard-picture` runs both.
"""

import json
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

DASHBOARD = Path(__file__).resolve().parent.parent / "observability" / "grafana-dashboard.json"
# The panels of the picture, in their order.
PANELS = [
    "Cache-hit rate by endpoint",
    "Answers by outcome",
    "Keys present by form",
    "Invalid keys by reason",
    "Problems by code",
    "Shadow mode: would be refused",
    "Lookups by result",
    "Lookup time, 95th percentile",
    "Translation failures by provider",
]
# A legend has room for so many series; the largest are shown, and the legend says how many are not.
SERIES = 5
UNITS = {"percentunit": lambda y, _: f"{y:.0%}", "reqps": lambda y, _: f"{y:g}/s", "ms": lambda y, _: f"{y:g} ms"}
# Okabe and Ito's colours: told apart by the colour-blind, too.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"]


def series_of(queries, title):
    """The series of a panel: (legend, seconds since the start, values), the largest first."""
    found = []
    for query in queries:
        if query["panel"] != title:
            continue
        for result in query["result"]:
            label = re.sub(r"\{\{(\w+)\}\}", lambda name: result["metric"].get(name[1], ""), query["legend"])
            points = [(time, float(value)) for time, value in result["values"] if value != "NaN"]
            if points:
                found.append((label, points))
    return sorted(found, key=lambda item: -sum(value for _, value in item[1]))


def draw(axes, panel, series, start, end):
    """One panel, with its title and its unit."""
    axes.set_title(panel["title"], loc="left", fontsize=11, fontweight="bold", pad=8)
    stacked = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    shown = series[:SERIES]
    if stacked:
        times = sorted({time for _, points in shown for time, _ in points})
        heights = [[dict(points).get(time, 0.0) for time in times] for _, points in shown]
        axes.stackplot([(time - start) / 60 for time in times], heights, labels=[label for label, _ in shown],
                       colors=COLOURS, alpha=0.8, linewidth=0)
    else:
        for (label, points), colour in zip(shown, COLOURS):
            axes.plot([(time - start) / 60 for time, _ in points], [value for _, value in points], label=label,
                      color=colour, linewidth=1.7)
    axes.set_xlim(0, (end - start) / 60)
    axes.set_ylim(bottom=0)
    defaults = panel["fieldConfig"]["defaults"]
    axes.yaxis.set_major_formatter(FuncFormatter(UNITS[defaults["unit"]]))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g} min"))
    axes.tick_params(labelsize=8.5, length=0, colors="#444444")
    axes.tick_params(axis="x", pad=7)
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)
    more = len(series) - len(shown)
    handles, labels = axes.get_legend_handles_labels()
    if more:
        handles.append(plt.Line2D([], [], linestyle="none"))
        labels.append(f"and {more} more")
    columns = 1 if max(map(len, labels)) > 32 else 2
    axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(-0.02, -0.14), ncols=columns, fontsize=8.5, frameon=False,
                handlelength=1.2, columnspacing=1.2, borderaxespad=0)


def main(data_file, picture):
    data = json.loads(Path(data_file).read_text())
    panels = {panel["title"]: panel for panel in json.loads(DASHBOARD.read_text())["panels"]}
    plt.rcParams["font.family"] = "DejaVu Sans"
    figure, grid = plt.subplots(3, 3, figsize=(15, 11.4))
    for axes, title in zip(grid.flat, PANELS):
        series = series_of(data["queries"], title)
        if not series:
            sys.exit(f"error: the data has nothing for the panel {title}")
        draw(axes, panels[title], series, data["start"], data["end"])
    figure.subplots_adjust(left=0.05, right=0.985, top=0.96, bottom=0.09, wspace=0.2, hspace=0.62)
    figure.savefig(picture, dpi=84, metadata={"Software": None})
    plt.close(figure)
    # A palette of 64 colours is enough for lines and text, and makes the file a third as large.
    from PIL import Image

    with Image.open(picture) as image:
        image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(picture, optimize=True)
    print(f"{picture}: {Path(picture).stat().st_size // 1024} KB")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
