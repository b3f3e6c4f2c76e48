"""`maxmincaps predict` as a user meets it: pictures in, classes and lengths out."""

from PIL import Image

from maxmincaps import Run
from maxmincaps.training.run import SHIPPED_RUN


def test_predict_draws_the_lengths_of_all_classes(command, run, tmp_path):
    Image.new("RGB", (90, 60), "white").save(tmp_path / "white.png")
    code, shown = command("predict", tmp_path / "white.png", "--run", run)
    assert code == 0
    assert "white.png is" in shown
    assert all(f" {digit} 0." in shown for digit in range(10))


def test_predict_knows_digits_without_any_training(command, seven):
    code, shown = command("predict", seven)
    assert code == 0
    assert "seven.png is 7" in shown
    assert "--swap" not in shown


def test_predict_says_that_it_recognises_nothing_where_every_length_is_small(command, tmp_path):
    Image.new("L", (28, 28), 64).save(tmp_path / "grey.png")
    code, shown = command("predict", tmp_path / "grey.png")
    assert code == 0
    assert f"grey.png is not recognised: no length reaches {Run(SHIPPED_RUN).recipe.margin_low}" in shown
    assert all(f" {digit} 0.0" in shown for digit in range(10))


def test_a_file_name_in_brackets_is_a_file_name(command, seven):
    names = [seven.with_name(name) for name in ("[1].png", "[a, b].png")]
    for name in names:
        name.write_bytes(seven.read_bytes())
    code, shown = command("predict", *(name.name for name in names))
    assert code == 0
    assert all(f"{name.name} is 7" in shown for name in names)


def test_predict_asks_whether_dark_strokes_on_light_paper_should_be_swapped(command, seven):
    Image.eval(Image.open(seven), lambda light: 255 - light).save(seven)
    _, shown = command("predict", seven)
    assert "mostly light: if its strokes are dark, add --swap" in shown
    _, shown = command("predict", seven, "--swap")
    assert "seven.png is 7" in shown
    assert "mostly light" not in shown


def test_what_is_not_an_image_is_said(command, tmp_path):
    (tmp_path / "not.png").write_text("hello")
    code, shown = command("predict", tmp_path / "not.png")
    assert code == 2
    assert "not.png: expected an image" in shown
    code, shown = command("predict", tmp_path / "nowhere.png")
    assert code == 2
    assert "nowhere.png" in shown
