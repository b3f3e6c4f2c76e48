"""Drawings and uploads, which are not trusted."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from maxmincaps import InputError, fit
from maxmincaps.app import uploads
from maxmincaps.app.routed import load_models
from maxmincaps.data.image_files import read_picture
from maxmincaps.training.evaluate import images_seen
from maxmincaps.training.predict import Predictor, size_before_crop
from maxmincaps.training.run import Run

MNIST, COLOUR = (1, 28, 28), (3, 24, 24)


def url(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def encoded(picture: Image.Image, kind: str = "PNG", **settings) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **settings)
    return url(buffer.getvalue())


def test_a_drawing_is_centred_by_its_mass_wherever_it_is_drawn():
    ink = np.zeros((280, 280), np.uint8)
    ink[10:90, 20:40] = 255
    moved = np.roll(ink, (150, 180), (0, 1))
    first, second = (
        uploads.prepare_drawing(encoded(Image.fromarray(one)), MNIST).image.numpy() for one in (ink, moved)
    )
    assert (first == second).all()
    rows = (first[0].sum(1) * np.arange(0.5, 28)).sum() / first.sum()
    columns = (first[0].sum(0) * np.arange(0.5, 28)).sum() / first.sum()
    assert abs(rows - 14) <= 0.5
    assert abs(columns - 14) <= 0.5
    assert (first[0].sum(1) > 0).sum() == 20  # the longer side fills 20 of 28 pixels, as MNIST's do


def test_nothing_drawn_is_nothing():
    assert uploads.prepare_drawing(encoded(Image.new("L", (280, 280))), MNIST) is None


@pytest.mark.parametrize("shape", [MNIST, COLOUR])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_a_picture_of_any_kind_comes_to_the_network_s_size_and_colours(mode, shape):
    taken = uploads.prepare_upload(encoded(Image.new(mode, (50, 31), 1)), shape)
    assert tuple(taken.image.shape) == shape
    assert 0 <= taken.image.min() <= taken.image.max() <= 1


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_an_upload_has_the_pixels_that_are_read_from_the_same_file(tmp_path, mode):
    noise = np.random.default_rng(0).integers(0, 256, (31, 50, 4), dtype=np.uint8)
    deep = Image.fromarray(noise[..., 0].astype(np.uint16) * 257)
    picture = deep if mode == "I;16" else Image.fromarray(noise).convert(mode)
    picture.save(tmp_path / "some.png")
    for shape, colours in ((MNIST, "L"), (COLOUR, "RGB")):
        read = read_picture(tmp_path / "some.png", colours, *shape[1:])
        assert np.array_equal(
            uploads.prepare_upload(url((tmp_path / "some.png").read_bytes()), shape).image * 255, read
        )


def test_the_explorer_shows_a_cropped_network_the_window_that_predict_shows_it(tiny, tmp_path):
    from maxmincaps.app.handlers import Handlers

    run = fit(tiny(crop=24, epochs=1), tmp_path / "run").folder
    noise = np.random.default_rng(0).integers(0, 256, (31, 50), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "some.png")
    page = Handlers(load_models([run]), None, size_before_crop(Run(run)))
    page._route = lambda image, note, _: (image, note)
    sent = SimpleNamespace(_data={"picture": url((tmp_path / "some.png").read_bytes())})
    image, note = page.upload(sent)
    assert torch.equal(image, Predictor.of(run).picture(tmp_path / "some.png"))
    assert note == "your picture at 28×28, seen through its central 24×24"


def test_swapping_turns_dark_on_light_into_light_on_dark():
    picture = encoded(Image.new("L", (28, 28), 255))
    assert uploads.prepare_upload(picture, MNIST).image.min() == 1
    assert uploads.prepare_upload(picture, MNIST, invert=True).image.max() == 0


def test_of_an_animation_the_first_frame_is_taken_and_said_so():
    frames = [Image.new("L", (28, 28), grey) for grey in (0, 120, 255)]
    moving = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    taken = uploads.prepare_upload(moving, MNIST)
    assert taken.image.max() == 0
    assert "first frame" in taken.note


def test_an_empty_file_a_text_a_huge_picture_and_a_bomb_are_refused_in_a_sentence():
    bomb = bytearray(base64.b64decode(encoded(Image.new("1", (8, 8))).partition(",")[2]))
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2  # the header says 60,000 × 60,000
    for content, words in (
        (url(b""), "an empty file"),
        (url(b"<svg onload=alert(1)>"), "something else"),
        (url(b"\x89PNG\r\n\x1a\n"), "something else"),
        (url(bytes(bomb)), "damaged|million pixels"),
        (url(b"0" * (uploads.MOST_BYTES + 10)), "at most 8 MB"),
        (encoded(Image.new("1", (8000, 8000))), "million pixels"),
        ("data:image/png;base64,???", "damaged data"),
        ("/etc/passwd", "something else"),
        (None, "something else"),
        ({"path": "x"}, "something else"),
    ):
        with pytest.raises(InputError, match=words) as refusal:
            uploads.prepare_upload(content, MNIST)
        assert "/" not in str(refusal.value)


@settings(max_examples=150)
@given(st.data())
def test_damaged_pictures_are_read_or_refused_and_nothing_else(data):
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"]))
    content = bytearray(base64.b64decode(encoded(Image.new("RGB", (12, 9), "teal"), kind).partition(",")[2]))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    try:
        taken = uploads.prepare_upload(url(bytes(content[:cut] if data.draw(st.booleans()) else content)), MNIST)
    except InputError:
        return
    assert tuple(taken.image.shape) == MNIST


def test_the_test_images_of_a_network_of_overlapping_ones_are_the_pairs_that_it_was_tested_on(tiny, tmp_path):
    run = fit(tiny(overlap=True, epochs=1), tmp_path / "run")
    samples = uploads.Samples.of(run.folder)
    tested = images_seen(run).test
    assert torch.equal(samples.images.images, tested.images)
    first, second = (tested.classes[label] for label in tested.labels[3].tolist())
    assert samples.prepare(3).note == f"test image 3, labelled {first} and {second}"
