"""The pages in a real browser: what a person does, and what they see."""

import io
import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from maxmincaps import InputError
from maxmincaps.analysis import poll as polls
from maxmincaps.app.runs import find_runs
from tests.app.conftest import Served, Visitor, persist

LOCAL = re.compile(r"^(http://127\.0\.0\.1:|data:|blob:)")
FOLDERS = {tempfile.gettempdir(), str(Path.home()), str(Path.cwd()), sys.prefix, sys.base_prefix}
PATHS = re.compile("|".join(map(re.escape, [*FOLDERS, "site-packages"])))


@pytest.fixture(scope="session")
def explorer(runs):
    """The explorer of two tiny runs."""
    served = Served("app", *map(str, runs))
    persist(lambda: Visitor(served.port).ask("GET", "/"))
    yield served
    served.kill()


@pytest.fixture
def page(browser):
    """A page that remembers what it asked for and what went wrong on it."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    opened.asked, opened.failures, opened.answers = [], [], []
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.on("pageerror", lambda error: opened.failures.append(str(error)))
    opened.on("response", lambda answer: opened.answers.append(answer))
    yield opened
    context.close()


def troubles(page):
    """Return what went wrong on a page: script errors, server errors, and paths of the machine in responses."""
    from playwright.sync_api import Error

    found = [*page.failures, *(f"{answer.status} {answer.url}" for answer in page.answers if answer.status >= 500)]
    for answer in page.answers:
        ends = not answer.headers.get("content-type", "").startswith("text/event-stream")
        if answer.request.resource_type in ("document", "fetch", "xhr") and answer.ok and ends:
            with suppress(Error):  # messages before a reload are gone
                found += PATHS.findall(answer.text())
    return found


def opened(page, listener):
    page.goto(listener.address)
    page.wait_for_selector("#answer-left svg")
    page.wait_for_selector("#capsule img >> nth=1")
    return page


def content(page, part):
    """Return the HTML of a part of the page, without what Gradio adds around it."""
    return page.inner_html(f"#{part} .html-container")


def changed(page, part, before):
    """Wait until a part of the page shows something else."""
    other = "([part, before]) => document.querySelector(part).innerHTML !== before"
    page.wait_for_function(other, arg=[f"#{part} .html-container", before])
    return content(page, part)


def slide(page, name, key="ArrowRight"):
    page.locator(f"#{name} input[type=range]").press(key)


def test_a_stroke_brings_a_prediction(explorer, page):
    opened(page, explorer)
    before = content(page, "answer-left")
    pad = page.locator("#pad canvas").bounding_box()
    page.mouse.move(pad["x"] + 140, pad["y"] + 40)
    page.mouse.down()
    page.mouse.move(pad["x"] + 135, pad["y"] + 230, steps=6)
    page.mouse.up()
    after = changed(page, "answer-left", before)
    assert re.search(r"length 0\.\d\d", after)
    assert "your drawing" in page.inner_text("#note")
    assert troubles(page) == []


def test_the_empty_pad_says_where_to_draw_until_a_stroke_begins(explorer, page):
    opened(page, explorer)
    words, canvas = page.get_by_text("draw here"), page.locator("#pad canvas").bounding_box()
    place = words.bounding_box()
    assert canvas["x"] <= place["x"] < place["x"] + place["width"] <= canvas["x"] + canvas["width"]
    assert canvas["y"] <= place["y"] < place["y"] + place["height"] <= canvas["y"] + canvas["height"]
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.mouse.down()
    assert words.is_hidden()
    page.mouse.up()
    assert words.is_hidden()
    page.get_by_role("button", name="Clear").first.click()
    assert words.is_visible()


def test_the_iteration_slider_moves_the_histograms(explorer, page):
    opened(page, explorer)
    before = content(page, "histograms-left")
    slide(page, "iteration", "ArrowLeft")
    second = changed(page, "histograms-left", before)
    assert "iteration 2" in second
    slide(page, "iteration", "ArrowLeft")
    first = changed(page, "histograms-left", second)
    assert "iteration 1" in first
    assert re.search(r"most near -?0\.0", first)  # all logits start at zero


def test_a_capsule_slider_draws_another_reconstruction(explorer, page):
    opened(page, explorer)
    images = "() => [...document.querySelectorAll('#capsule img')].map(image => image.src)"
    routed, same = page.evaluate(images)
    assert routed == same
    page.locator("#number-1 input[type=number]").fill("0.9")
    page.locator("#number-1 input[type=number]").press("Enter")
    page.wait_for_function("() => { const [a, b] = document.querySelectorAll('#capsule img'); return a.src !== b.src }")
    assert page.evaluate(images)[0] == routed
    page.click("#reset")
    page.wait_for_function("() => { const [a, b] = document.querySelectorAll('#capsule img'); return a.src === b.src }")


def test_another_normalization_on_the_same_votes_and_another_child_and_class(explorer, page):
    opened(page, explorer)
    before = content(page, "histograms-right")
    page.click("#right-normalization input")
    page.get_by_role("option", name="winner-take-all").click()
    changed(page, "histograms-right", before)
    assert "winner-take-all" in page.inner_text("#answer-right")
    child = content(page, "child-left")
    slide(page, "row", "ArrowRight")
    changed(page, "child-left", child)
    support = content(page, "support-left")
    page.click("#class input")
    page.get_by_role("option", name="3", exact=True).click()
    assert "largest coefficients for 3" in changed(page, "support-left", support)


def test_a_bad_upload_is_a_sentence_and_a_good_one_a_prediction(explorer, page, tmp_path):
    opened(page, explorer)
    page.get_by_role("tab", name="Upload").click()
    for name, content, words in (
        ("empty.png", b"", "empty"),
        ("text.png", b"no picture at all", "cannot be shown"),
        ("huge.png", b"0" * (9 << 20), "at most 8 MB"),
    ):
        page.set_input_files("#file input[type=file]", {"name": name, "mimeType": "image/png", "buffer": content})
        page.wait_for_function(
            "words => document.querySelector('#note').innerText.includes(words) "
            "|| document.querySelector('#file').innerText.includes(words)",
            arg=words,
        )
    Image.new("L", (60, 60), 200).save(tmp_path / "grey.png")
    page.set_input_files("#file input[type=file]", tmp_path / "grey.png")
    page.wait_for_function("() => document.querySelector('#note').innerText.includes('your picture at 28×28')")
    assert troubles(page) == []


def test_the_explorer_contacts_no_other_host_and_fits_a_phone(explorer, browser, page):
    opened(page, explorer)
    assert [url for url in page.asked if not LOCAL.match(url)] == []
    for image in page.locator("#answer-left img, #capsule img").all():
        assert image.get_attribute("alt")
    for drawing in page.locator("svg.chart, svg.map, .heat").all():
        assert drawing.get_attribute("aria-label")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#answer-left").bounding_box()["width"] > 300


def test_charts_and_maps_use_the_whole_card_and_titles_align_with_cards(explorer, page):
    opened(page, explorer)
    page.set_viewport_size({"width": 1280, "height": 800})
    card = page.locator("#support-left").bounding_box()
    heat = page.locator("#support-left .heat").bounding_box()
    assert heat["width"] > 0.9 * card["width"]
    for part, charts in (("histograms-left", 2), ("child-left", 2)):
        card = page.locator(f"#{part}").bounding_box()
        drawn = [one.bounding_box() for one in page.locator(f"#{part} svg.chart").all()]
        assert len(drawn) == charts
        assert drawn[-1]["x"] + drawn[-1]["width"] > card["x"] + 0.92 * card["width"]
    lefts = {round(one.bounding_box()["x"]) for one in page.locator(".quiet h1, .quiet h2, #support-left").all()}
    assert len(lefts) == 1
    assert page.locator("#histograms-left").bounding_box()["y"] < 800 - 150  # the coefficients are on the first screen


def test_labels_say_whose_normalization_it_is_and_one_normalization_twice_has_two_colours(explorer, page):
    opened(page, explorer)
    for words in ("Left: network", "Left: normalization", "Right: network", "Right: normalization"):
        assert page.get_by_text(words, exact=True).is_visible()
    colour = "side => getComputedStyle(document.querySelector(`#answer-${side} .result b`)).color"
    assert page.evaluate(colour, "left") != page.evaluate(colour, "right")
    before = content(page, "answer-right")
    page.click("#right-run input")
    page.get_by_role("option", name="max-min", exact=True).click()
    changed(page, "answer-right", before)
    assert "max-min" in page.inner_text("#answer-right")
    assert page.evaluate(colour, "left") != page.evaluate(colour, "right")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_slider_stands_out_from_its_card_in_light_and_dark(explorer, browser, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(explorer.address)
    page.wait_for_selector("#iteration input[type=range]")
    with Image.open(io.BytesIO(page.locator("#iteration input[type=range]").screenshot())) as picture:
        grey = picture.convert("L")
    middle = grey.height // 2
    card, thumb = grey.getpixel((grey.width // 4, 0)), grey.getpixel((grey.width // 2, middle))  # iteration 3 of 5
    groove = grey.getpixel((grey.width * 7 // 8, middle))
    assert abs(thumb - card) > 80
    assert 25 < abs(groove - card) < 100  # visible, without glare
    context.close()


def test_files_cannot_be_laid_on_the_explorer_s_disk(explorer, page):
    page.goto(explorer.address)
    status = page.evaluate(
        "async () => { const form = new FormData(); form.append('files', new Blob(['x']), 'x.png');"
        "return (await fetch('gradio_api/upload', {method: 'POST', body: form})).status }"
    )
    assert status == 404


def test_a_poll_is_answered_with_keys_reloaded_in_the_middle_and_counted(poll, page, tmp_path):
    _, listener = poll
    page.goto(listener.address)
    page.wait_for_selector("#asking:not([hidden])")
    for key in "73":
        before = page.inner_text("#progress-words")
        page.keyboard.press(key)
        page.wait_for_function("before => document.querySelector('#progress-words').innerText !== before", arg=before)
    shown = page.get_attribute("#image", "src")
    page.reload()
    page.wait_for_selector("#asking:not([hidden])")
    assert page.inner_text("#progress-words") == "Image 3 of 5 · 2 answered"
    assert page.get_attribute("#image", "src") == shown
    page.keyboard.press("ArrowLeft")  # go back, and change one's mind
    assert page.locator("#choices button[aria-pressed=true]").inner_text() == "3"
    page.keyboard.press("4")
    page.wait_for_function("() => document.querySelector('#progress-words').innerText.startsWith('Image 3')")
    for number in range(3):
        page.get_by_role("button", name="9", exact=True).click()
        page.wait_for_function(
            f"() => !document.querySelector('#progress-words').innerText.includes('{number + 2} answered')"
        )
    page.wait_for_selector("#thanks:not([hidden])")
    found = polls.read(tmp_path / "poll.sqlite")
    assert (found.people, found.finished, found.answers) == (1, 1, 5)
    totals = sum(question.counts for question in found.questions)
    assert totals.tolist() == [0, 0, 0, 0, 1, 0, 0, 1, 0, 3]
    assert [url for url in page.asked if not LOCAL.match(url)] == []
    assert troubles(page) == []


def test_a_person_who_cannot_tell_can_say_so_and_nothing_is_cut_at_800_pixels(poll, browser, tmp_path):
    _, listener = poll
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(listener.address)
    page.wait_for_selector("#asking:not([hidden])")
    bottom = page.locator("footer").bounding_box()
    assert bottom["y"] + bottom["height"] <= 800
    assert page.locator("#image").bounding_box()["height"] > 250
    page.get_by_role("button", name="I cannot tell").click()
    page.wait_for_function("() => document.querySelector('#progress-words').innerText.startsWith('Image 2')")
    page.keyboard.press("c")
    page.wait_for_function("() => document.querySelector('#progress-words').innerText.startsWith('Image 3')")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#cannot-tell").get_attribute("aria-pressed") == "true"
    assert sum(question.cannot_tell for question in polls.read(tmp_path / "poll.sqlite").questions) == 2
    context.close()


def test_two_tabs_are_one_person(poll, page, tmp_path):
    _, listener = poll
    second = page.context.new_page()
    for tab in (page, second):
        tab.goto(listener.address)
        tab.wait_for_selector("#asking:not([hidden])")
    for tab, key in ((page, "1"), (second, "2")):
        tab.keyboard.press(key)
        tab.wait_for_function("() => document.querySelector('#progress-words').innerText.startsWith('Image 2')")
    found = polls.read(tmp_path / "poll.sqlite")
    assert (found.people, found.answers) == (1, 1)
    assert sum(question.counts for question in found.questions)[2] == 1


def test_a_page_takes_a_folder_of_runs_and_says_what_to_run_where_there_is_none(tmp_path, runs):
    with pytest.raises(InputError, match="maxmincaps quickstart"):
        find_runs([tmp_path / "nothing"], needs="best.safetensors")
    found = find_runs([runs[0].parent], needs="best.safetensors")
    assert [run.name for run in found] == ["max-min", "softmax"]
