import re
from pathlib import Path

from skillcomp.live.studyfile import read_study

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_study_file_of_the_readme_is_valid(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    path = tmp_path / "study.yaml"
    path.write_text(block.group(1), encoding="utf-8")
    study = read_study(path)
    assert study.repeats == 2
    assert study.conditions == ("baseline", "skill")
    assert study.graders[0].style == "forced"  # type: ignore[union-attr]
