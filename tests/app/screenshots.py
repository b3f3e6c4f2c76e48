"""Make the pictures of the pages for README and docs: `python -m tests.app.screenshots RUN RUN [--out FOLDER]`.

It serves the explorer of the runs and a poll about the last one, drives both with chromium, and writes one PNG for each
page, colour scheme and size.
"""

import argparse
import math
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.app.conftest import BROWSER, QUIET, Served, Visitor, persist

SCREEN, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
SCHEMES = ("light", "dark")


def three() -> list[tuple[float, float]]:
    """Return the points of a hand-drawn 3, as fractions of the sketch pad."""
    arcs = ((0.46, 0.33, 0.17, -150, 90), (0.46, 0.67, 0.20, -90, 150))
    return [
        (x + radius * 1.1 * math.cos(math.radians(angle)), y + radius * math.sin(math.radians(angle)))
        for x, y, radius, first, last in arcs
        for angle in range(first, last + 1, 8)
    ]


def draw(page: Page) -> None:
    """Draw a 3 on the sketch pad, and wait until it has been classified."""
    box = page.locator("#pad canvas").bounding_box()
    assert box
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in three()]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point)
    page.mouse.up()
    page.wait_for_function("() => document.querySelector('#note').innerText.includes('your drawing')")
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)


@contextmanager
def opened(browser: Browser, address: str, scheme: str, size: dict):
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(address)
    yield page
    context.close()


def photograph(page: Page, path: Path, *, whole: bool = False, above: str = "") -> None:
    """Write what the page shows, or the part that ends below an element, in at most 256 colours for a small file."""
    size = dict(page.viewport_size or SCREEN)
    box = page.locator(above).bounding_box() if above else None
    if box:
        size["height"] = min(size["height"], round(box["y"] + box["height"]) + 16)
    page.screenshot(path=path, full_page=whole, clip=None if whole else {"x": 0, "y": 0, **size})
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def explorer(browser: Browser, runs: list[Path], out: Path, *, whole: bool) -> None:
    served = Served("app", *map(str, runs))
    try:
        persist(lambda: Visitor(served.port).ask("GET", "/"))
        for name, scheme, size in [*((scheme, scheme, SCREEN) for scheme in SCHEMES), ("phone", "light", PHONE)]:
            with opened(browser, served.address, scheme, size) as page:
                page.wait_for_selector("#answer-left svg")
                draw(page)
                photograph(page, out / f"explorer-{name}.png", above="" if name == "phone" else "#histograms-left")
                if whole:
                    photograph(page, out / f"explorer-{name}-whole.png", whole=True)
    finally:
        served.kill()


def poll(browser: Browser, run: Path, out: Path) -> None:
    with TemporaryDirectory() as folder:
        served = Served("poll", "open", str(run), "--images", "247,321,582", "--out", f"{folder}/poll.sqlite")
        try:
            persist(lambda: Visitor(served.port).ask("GET", "/"))
            for name, scheme, size in [*((scheme, scheme, SCREEN) for scheme in SCHEMES), ("phone", "light", PHONE)]:
                with opened(browser, served.address, scheme, size) as page:
                    page.wait_for_selector("#asking:not([hidden])")
                    page.wait_for_timeout(500)
                    photograph(page, out / f"poll-{name}.png")
        finally:
            served.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--whole", action="store_true", help="also write the whole length of the explorer")
    given = parser.parse_args()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=QUIET)
        explorer(browser, given.runs, given.out, whole=given.whole)
        poll(browser, given.runs[-1], given.out)
        browser.close()


if __name__ == "__main__":
    main()
