#!/usr/bin/env python3
"""The page of offload_job serve in Chromium: a job's whole life by clicks, two widths, light and dark.

$SLUICE_PICTURES names a folder for pictures of the page.
"""
import json
import os
import re
import unittest

import browser
import serving
import support
from jobs import store
from serving import source

WAITS = json.dumps({"command": "echo begun; while [ ! -e end ]; do sleep 0.02; done; echo '<b>over</b>'"})
TRAINER = "{trainer: {options: {device: none, batch-size: 8, workers: 1, epochs: 1000000, seed: 3}}}"
LOOKS = [(width, scheme) for width in (1000, 390) for scheme in ("light", "dark")]
# Contrast of text and what is behind it by WCAG 2.1, of each element with a text of its own.
CONTRASTS = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255];
  };
  return [...document.body.querySelectorAll("*")].filter((one) => one.checkVisibility() && !one.disabled &&
      [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim())).map((one) => {
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))];
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.outerHTML.slice(0, 120)];
  }).filter(([ratio]) => ratio < 4.5);
})()"""
UNNAMED = """[...document.querySelectorAll("input, select, textarea, button, pre, section, form, ol, meter")]
  .filter((one) => one.checkVisibility() && !(one.labels && one.labels.length) && !one.getAttribute("aria-label") &&
    !document.getElementById(one.getAttribute("aria-labelledby")) && !one.textContent.trim() && one.tagName !== "FORM")
  .map((one) => one.outerHTML)"""


class SourceTest(support.JobTest):
    def test_its_steps_are_those_of_the_store(self):
        script = source("page.js").read_text()
        listed = re.search(r"const STEPS = \{(.*?)\};", script, re.S)[1]
        self.assertEqual(dict(re.findall(r'(\w+): "([^"]*)"', listed)), store.STEPS)

    def test_it_makes_no_markup_of_texts_and_loads_nothing_from_elsewhere(self):
        for name in ("page.html", "page.js", "page.css"):
            text = source(name).read_text()
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "://", "@import",
                         "url(", "style=", "onclick"):
                self.assertNotIn(word, text, name)


class PageTest(serving.ServeTest):
    def setUp(self):
        super().setUp()
        self.page = browser.Browser(browser.find())
        self.addCleanup(self.page.close)
        self.page.open(self.line)
        self.page.wait("document.readyState === 'complete' && !document.getElementById('jobs').hidden")

    def tearDown(self):
        self.assertEqual(self.page.errors, [])

    def check_looks(self, name):
        """Nothing is wider than the window, texts can be read, and everything has a name."""
        for width, scheme in LOOKS:
            self.page.look(width, scheme)
            self.assertLessEqual(self.page.run("document.documentElement.scrollWidth"), width, (name, scheme))
            self.assertEqual(self.page.run(CONTRASTS), [], (name, scheme))
            self.assertEqual(self.page.run(UNNAMED), [], name)
            if folder := os.environ.get("SLUICE_PICTURES"):
                self.page.picture(os.path.join(folder, f"{name}-{width}-{scheme}.png"))

    def fill(self, **values):
        for id, text in values.items():
            self.page.run(f"document.getElementById({json.dumps(id)}).value = {json.dumps(text)}")

    def click(self, selector):
        self.page.run(f"document.querySelector({json.dumps(selector)}).click()")

    def inner(self, id):
        return self.page.run(f"document.getElementById({json.dumps(id)}).innerText")

    def await_text(self, id, wanted):
        self.page.wait(f"document.getElementById({json.dumps(id)}).innerText.includes({json.dumps(wanted)})")

    def test_the_token_leaves_the_address_and_a_wrong_one_is_asked_for_anew(self):
        self.assertEqual(self.page.run("location.href"), f"{self.url}#/")
        self.page.run("sessionStorage.clear()")
        self.page.open(f"{self.url}#wrong")
        self.page.wait("!document.getElementById('enter').hidden && document.getElementById('jobs').hidden")
        self.await_text("message", "the token is missing")
        self.check_looks("enter")
        self.fill(token=self.token)
        self.click("#enter button")
        self.await_text("none", "No job")
        self.page.errors = [one for one in self.page.errors if "401" not in one.get("text", "")]

    def test_mistakes_lead_to_their_line(self):
        self.page.run("location.hash = '#/new'")
        self.page.wait("!document.getElementById('new').hidden")
        self.fill(folder=str(self.folder), text="name: a\ncompute: {comand: x}\n")
        self.click("#validate")
        self.await_text("problems", "line 2, column 11: compute.comand: unknown field; did you mean command?")
        self.check_looks("mistakes")
        self.page.run("[...document.querySelectorAll('#problems button')].find((one) => one.innerText.includes('comand')).click()")
        self.assertEqual(self.page.run("[document.activeElement.id, document.getElementById('text').selectionStart]"),
                         ["text", len("name: a\n") + 10])
        self.fill(text=self.text(WAITS))
        self.click("#validate")
        self.await_text("message", "test: ok")
        self.assertEqual(self.inner("problems"), "")

    def test_a_job_by_clicks(self):
        self.page.run("location.hash = '#/new'")
        self.page.wait("!document.getElementById('new').hidden")
        self.fill(folder=str(self.folder), text=self.text(WAITS))
        self.click("#submit")
        self.await_text("state", "running")
        self.await_text("logs", "compute-0: begun")
        self.assertEqual(self.page.run("[...document.querySelectorAll('#steps .name')].map((one) => one.innerText)"),
                         list(store.STEPS))
        self.assertEqual(self.page.run("document.querySelector('#steps .current .name').innerText"), "run")
        self.await_text("loader", "command")
        self.click("[data-act=freeze]")
        self.await_text("state", "paused")
        self.page.wait("!document.querySelector('[data-act=resume]').disabled")
        self.click("[data-act=resume]")
        self.await_text("state", "running")
        (self.folder / "runs/end").touch()
        self.await_text("state", "succeeded")
        self.await_text("logs", "compute-0: <b>over</b>")  # as text
        self.page.run("const role = document.getElementById('role'); role.value = 'compute-0'; "
                      "role.dispatchEvent(new Event('change'))")
        self.assertEqual(self.inner("logs"), "begun\n<b>over</b>\n")
        self.check_looks("ended")
        self.page.run("location.hash = '#/'")
        self.await_text("rows", "succeeded")
        self.check_looks("list")

    def test_figures_live_and_cancel(self):
        id = self.submit(TRAINER)
        self.page.run(f"location.hash = '#/jobs/{id}'")
        self.await_text("loader", "samples/s")
        self.page.wait("Number(document.querySelector('#loader .large').innerText.replaceAll(',', '')) > 0")
        self.page.wait("Number(document.querySelector('#servers .large').innerText.replaceAll(',', '')) > 0")
        for word in ("waits for batches", "storage cpu", "what crosses the network", "epoch", "remote_auto"):
            self.assertIn(word, self.inner("loader"))
        for word in ("cores", "queue", "Mbit/s", "streams"):
            self.assertIn(word, self.inner("servers"))
        self.check_looks("running")
        tops = "[...document.querySelectorAll('.card')].map((one) => one.getBoundingClientRect().top)"
        self.page.look(1000, "light")
        first, second = self.page.run(tops)
        self.assertEqual(first, second)  # side by side
        self.page.look(390, "light")
        first, second = self.page.run(tops)
        self.assertLess(first, second)
        self.page.run("window.confirm = () => true")
        self.click("[data-act=cancel]")
        self.await_text("state", "cancelled")
        self.assertTrue(self.page.run("document.getElementById('figures').hidden"))


if __name__ == "__main__":
    if not browser.find():
        done = unittest.main(argv=["test_page.py", "SourceTest"], exit=False)
        if not done.result.wasSuccessful():
            raise SystemExit(1)
        support.skip("no chromium here (Debian: chromium); only the page's source was looked at")
    support.main()
