"""The study file that a page shows is one that the command accepts."""

from maxmincaps.studies.study import load_study
from tests.docs.pages import DOCS, blocks


def test_the_study_file_of_the_page_can_be_run(tmp_path):
    (code,) = [code for language, code in blocks(DOCS / "reproduce.md") if language == "python" and "STUDY =" in code]
    (tmp_path / "my_study.py").write_text(code)
    study = load_study(tmp_path / "my_study.py")
    assert len(study.grid("small")) == 6
