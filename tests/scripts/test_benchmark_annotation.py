"""The simulated annotator: its corrections end in the gold tree, and are counted as they are made."""

import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")

from spacy_spectral.serve import blocks
from spacy_spectral.serve.engine import Engine
from spacy_spectral.serve.learner import train

ROWS = [("0", "root"), ("1", "obj"), ("2", "det")]


@pytest.fixture(scope="module")
def gold(script):
    lines = [f"{i}\tw{i}" + "\t_" * 4 + f"\t{h}\t{d}\t_\t_" for i, (h, d) in enumerate(ROWS, 1)]
    return script.Gold("\n".join(lines) + "\n\n", ["w1", "w2", "w3"], [True] * 3, ROWS)


def test_corrections_of_a_tree(script, gold):
    assert script.post_edit(ROWS, gold) == 0
    # a label; a head; both; and two roots that change places
    assert script.post_edit([ROWS[0], ("1", "nsubj"), ROWS[2]], gold) == 1
    assert script.post_edit([*ROWS[:2], ("1", "det")], gold) == 1
    assert script.post_edit([*ROWS[:2], ("1", "x")], gold) == 2
    assert script.post_edit([("2", "obj"), ("0", "root"), ROWS[2]], gold) == 3
    # without a model, all of it is made by hand
    assert script.correct(Engine(), gold) == 5


def test_learning_pays(script, few, tmp_path):
    (tmp_path / "x-train.conllu").write_bytes(few["train"].read_bytes())
    (tmp_path / "x-dev.conllu").write_bytes(few["dev"].read_bytes())
    model = tmp_path / "model"
    train(few["train"], lang="en").to_disk(model)
    dev = list(script.read(tmp_path, "dev"))
    assert [own.block for own in dev] == blocks.split_blocks(few["dev"].read_text("utf8"))
    options = script.argparse.Namespace(
        treebank=tmp_path, model=str(model), only=("corrections", "learning"), sentences=30, pool=25,
        orders=("errors", "document"), every=20, first=5, curve=20, dev=20, seed=0,
    )  # fmt: skip
    result = script.run(options)
    own = result["corrections"]
    assert 0 < own["parsing anew"] <= own["post-editing"] and 0.5 < own["las"] < 1
    for order in ("errors", "document"):
        found = result["learning"][order]
        assert [n for n, _ in found["curve"]] == [25]
        assert 0 < found["curve"][0][1] <= 1 and found["by hundred"] == [found["corrections"]]
    script.report(result)
