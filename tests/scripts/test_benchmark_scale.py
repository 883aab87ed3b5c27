"""The benchmark of large texts: what it cuts, counts and measures. It is run as a whole by hand."""

import signal
import sys

import pytest
from benchmark_scale import Process, Run, Use, count_words, cut, print_runs, print_scales


def test_files_have_whole_lines_of_the_beginning(tmp_path):
    lines = [f"line {i} of the text\n" for i in range(50)]
    (tmp_path / "text.txt").write_text("".join(lines), encoding="utf8")
    cut(tmp_path / "text.txt", tmp_path / "cut", files=3, size=100)
    parts = [path.read_text("utf8") for path in sorted((tmp_path / "cut").iterdir())]
    assert len(parts) == 3 and all(100 <= len(part) < 130 for part in parts)
    assert "".join(lines).startswith("".join(parts))
    with pytest.raises(SystemExit, match="fewer than"):
        cut(tmp_path / "text.txt", tmp_path / "more", files=30, size=100)


def test_words_are_those_of_the_tree():
    text = "# text = du\n1-2\tdu\t_\n1\tde\t_\n2\tle\t_\n2.1\tx\t_\n\n1\ta\t_\n\n"
    assert count_words({"a.conllu": text.encode(), "b.conllu": b""}) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.wait4")
def test_processes_are_measured_also_when_they_are_killed(tmp_path):
    busy = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"
    process = Process([sys.executable, "-c", busy], tmp_path / "log")
    used = process.end()
    assert process.status == 0 and used.cpu >= 0.2 and used.peak_mb > 1
    process = Process([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log")
    process.end(signal.SIGKILL)
    assert process.status == -signal.SIGKILL and not process.is_running


def test_tables(capsys):
    alone = Run("one process", 10.0, Use(10.0, 400.0))
    two = Run("two", 6.0, Use(1.0, 300.0), [Use(6.0, 420.0), Use(5.5, 410.0)], Use(0.5, 100.0))
    assert two.cpu == 13.0 and two.longest == 6.0 and two.peak_mb == 420.0
    print_runs([alone, two], 1000)
    assert "1.67" in capsys.readouterr().out
    print_scales(20_000, 57.0)
    shown = capsys.readouterr().out
    assert "13.89" in shown and "57.00 GB" in shown
