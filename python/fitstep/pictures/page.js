"use strict";
// Draws the charts of a program when its part of the page is opened first, and gives all charts the
// colors of the page. The data of each program is JSON, compressed by gzip, in base64.

const shown = new Set();

async function unpack(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function painted() {
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
}

function recolor() {
  const style = getComputedStyle(document.documentElement);
  const text = style.getPropertyValue("--text").trim();
  const line = style.getPropertyValue("--line").trim();
  for (const drawn of Bokeh.documents) {
    for (const model of drawn.all_models) {
      if (model.type === "Title") model.text_color = text;
      if (model.type === "Figure") model.outline_line_color = line;
      if (model.type.endsWith("Axis")) {
        for (const name of ["axis_line_color", "major_tick_line_color", "minor_tick_line_color"]) {
          model[name] = line;
        }
        model.axis_label_text_color = model.major_label_text_color = text;
      }
      if (model.type === "Grid") model.grid_line_color = line;
    }
  }
}

async function draw(part) {
  for (const target of part.querySelectorAll(".charts")) {
    if (shown.has(target.id)) continue;
    shown.add(target.id);
    try {
      const item = await unpack(document.getElementById(`${target.id}-data`).textContent);
      await Bokeh.embed.embed_item(item, target.id);
      recolor();
      await painted();
      target.dataset.drawn = performance.now();  // Milliseconds since the page began to load.
    } catch (error) {
      target.className = "charts failed";
      target.textContent = `The charts cannot be drawn in this browser: ${error}. Open the page ` +
        "in Chrome 80, Firefox 113, Safari 16.4 or newer.";
    }
  }
}

for (const part of document.querySelectorAll("details")) {
  part.addEventListener("toggle", () => { if (part.open) draw(part); });
  if (part.open) draw(part);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
new MutationObserver(recolor).observe(document.documentElement, { attributeFilter: ["data-theme"] });
