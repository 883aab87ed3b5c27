"""The pages in a real browser: Debian's chromium, driven by playwright."""

import os
import shutil
import time

import pytest

from servers import running
from spacy_spectral.serve import blocks
from spacy_spectral.serve.annotate import annotation_app, open_work
from spacy_spectral.serve.models import Model, Models
from spacy_spectral.serve.service import service_app
from spacy_spectral.treebank.conllu import scan_conllu

TOKEN = "secret"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# where a browser must be there, this is set, and nothing is skipped
REQUIRED = bool(os.environ.get("SPECTRAL_BROWSER_REQUIRED"))


@pytest.fixture(scope="module")
def browser():
    if not REQUIRED:
        if CHROMIUM is None:
            pytest.skip("there is no chromium (apt install chromium)")
        pytest.importorskip("playwright", reason="needs playwright (pip install playwright)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    # playwright waits by evaluating text, which the page's own policy forbids
    page = browser.new_page(viewport={"width": 1280, "height": 900}, bypass_csp=True)
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))

    def asked(request):
        if not request.url.startswith(("http://127.0.0.1:", "about:")):
            faults.append(request.url)

    page.on("request", asked)
    page.faults = faults
    yield page
    page.close()


@pytest.fixture
def work(bare, learnt, tmp_path, works_here):
    path = tmp_path / "in.conllu"
    path.write_text("".join(bare), encoding="utf8")
    work = open_work(path, model=str(learnt), every=0)
    work.learner.wait()
    return work


@pytest.fixture
def address(work):
    with running(annotation_app(work, TOKEN)) as port:
        yield f"http://127.0.0.1:{port}/{TOKEN}/"


def go(page, address, sentence):
    page.goto("about:blank")
    page.goto(f"{address}#{sentence}")
    page.wait_for_selector("svg .w")


def arc(page, child):
    return page.locator(f'.arc[data-child="{child}"]')


def head_of(page, child):
    return int(arc(page, child).get_attribute("data-head"))


def wait_for_head(page, child, head):
    page.wait_for_selector(
        f'.arc[data-child="{child}"][data-head="{head}"].pinned', state="attached"
    )


def centre(page, word):
    box = page.locator(f'.w[data-word="{word}"] rect').bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page, word, head):
    page.mouse.move(*centre(page, word))
    page.mouse.down()
    x, y = centre(page, head) if head else (centre(page, word)[0], root_line(page))
    page.mouse.move(x + 3, y + 40 if head else y + 60, steps=4)
    page.mouse.move(x, y, steps=4)
    page.mouse.up()


def root_line(page):
    return page.locator("#scroll svg").bounding_box()["y"] + 8


def short(bare, least=5, most=9):
    lengths = [len(blocks.values(block)) for block in bare]
    return next(i for i, n in enumerate(lengths) if least <= n <= most)


def test_a_sentence_is_annotated(page, address, work, bare):
    """Open, fix heads by dragging and by keys, change a label, undo, accept, reload."""
    id_ = short(bare)
    n = len(blocks.values(bare[id_]))
    go(page, address, id_)
    before = [head_of(page, i) for i in range(1, n + 1)]
    assert page.locator(".arc").count() == n
    # the root moves: the old one must have another head
    old = before.index(0) + 1
    word = 1 if old != 1 else 2
    drag(page, word, 0)
    wait_for_head(page, word, 0)
    after = [head_of(page, i) for i in range(1, n + 1)]
    assert after[old - 1] != 0 and after != before
    page.keyboard.press("z")
    page.wait_for_selector(f'.arc[data-child="{old}"][data-head="0"]', state="attached")
    assert [head_of(page, i) for i in range(1, n + 1)] == before
    # to another word
    target = next(i for i in range(1, n + 1) if i not in (word, before[word - 1]))
    drag(page, word, target)
    wait_for_head(page, word, target)
    # by keys: another word, another head by its number
    page.keyboard.press("Home")
    for _ in range(n - 1):
        page.keyboard.press("ArrowRight")
    other = next(i for i in range(1, n) if i != head_of(page, n))
    for key in ("h", *str(other), "Enter"):
        page.keyboard.press(key)
    wait_for_head(page, n, other)
    # a label from the list, by typing
    page.keyboard.press("l")
    page.wait_for_selector("dialog[open] li")
    page.keyboard.type("parataxis")
    page.keyboard.press("Enter")
    page.wait_for_function(
        f"document.querySelector('.arc[data-child=\"{n}\"] .label').textContent.startsWith('parataxis')"
    )
    page.keyboard.press("u")
    page.wait_for_selector("dialog[open] li")
    page.keyboard.type("INTJ")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('word').textContent.includes('INTJ')")
    assert "4 corrections" in page.inner_text("#fixes")
    page.keyboard.press("a")
    page.wait_for_function("document.getElementById('panel').textContent.startsWith('accepted1')")
    sentence = list(sentences_of(work))[id_]
    assert sentence.heads[n - 1] == other - 1 and sentence.deps[n - 1] == "parataxis"
    assert sentence.upos[n - 1] == "INTJ"
    go(page, address, id_)
    assert "accepted" in page.inner_text("#place")
    assert head_of(page, n) == other
    assert page.faults == []


def sentences_of(work):
    return scan_conllu(work.journal.output, trees=False)


def test_the_policy_of_the_server_is_kept(browser, address, bare):
    page, told = browser.new_page(), []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    go(page, address, short(bare))
    page.keyboard.press("l")
    page.wait_for_selector("dialog[open] li")
    assert told == []
    page.close()


def test_lists_panels_and_orders(page, address, work, bare):
    id_ = short(bare)
    go(page, address, id_)
    page.keyboard.press("b")
    page.wait_for_selector("dialog[open] li")
    assert page.locator("dialog[open] li").count() >= 2
    page.keyboard.press("2")
    page.wait_for_selector(".arc.pinned", state="attached")
    page.keyboard.press("c")
    page.keyboard.type("why so")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('note').textContent === 'why so'")
    page.keyboard.press("/")
    page.keyboard.type("note=why")
    page.wait_for_selector("dialog[open] li")
    page.keyboard.press("Escape")
    page.wait_for_function("!document.querySelector('dialog[open]')")
    page.keyboard.press("?")
    page.wait_for_selector("#help[open]")
    assert page.locator("#help[open] kbd").count() > 20
    page.keyboard.press("Escape")
    page.wait_for_function("!document.querySelector('dialog[open]')")
    page.select_option("#order", "document")
    page.wait_for_function("!document.querySelector('dialog[open]')")
    page.keyboard.press("g")
    page.wait_for_function("location.hash === '#0'")
    page.keyboard.press("s")
    page.wait_for_function("location.hash === '#1'")
    page.keyboard.press("p")
    page.wait_for_function("location.hash === '#0'")
    assert "skipped" in page.inner_text("#place")
    page.keyboard.press("n")
    page.wait_for_function("location.hash === '#1'")
    page.keyboard.press("P")
    page.wait_for_function("location.hash === '#0'")
    page.hover('.w[data-word="1"]')
    assert page.faults == []


def test_borders_change(page, address, bare):
    id_ = short(bare)
    n = len(blocks.values(bare[id_]))
    go(page, address, id_)
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("S")
    page.wait_for_function("document.querySelectorAll('svg .w').length === 2")
    page.keyboard.press("z")
    page.wait_for_function(f"document.querySelectorAll('svg .w').length === {n}")
    page.keyboard.press("Home")
    page.keyboard.press("t")
    page.wait_for_selector("dialog[open] input")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.type(" ")
    page.keyboard.press("Enter")
    page.wait_for_function(f"document.querySelectorAll('svg .w').length === {n + 1}")
    page.keyboard.press("j")
    page.wait_for_function(f"document.querySelectorAll('svg .w').length === {n}")
    assert page.faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_small_screens(browser, address, bare, scheme):
    """At 390 pixels nothing but the drawing is wider than the screen, and a finger can drag."""
    longest = max(range(len(bare)), key=lambda i: len(bare[i]))
    context = browser.new_context(
        viewport={"width": 390, "height": 800}, has_touch=True, color_scheme=scheme
    )
    page = context.new_page()
    go(page, address, longest)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('#scroll').scrollWidth") > 390
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(20, 25, 30)") == (scheme == "dark")
    context.close()


def test_right_to_left(page, learnt, tmp_path, works_here):
    path = tmp_path / "a.conllu"
    words = ["הילד", "אכל", "תפוח"]
    rows = [f"{i}\t{w}" + "\t_" * 8 for i, w in enumerate(words, 1)]
    path.write_text("\n".join(rows) + "\n\n", encoding="utf8")
    work = open_work(path, model=str(learnt), every=0)
    with running(annotation_app(work, TOKEN)) as port:
        go(page, f"http://127.0.0.1:{port}/{TOKEN}/", 0)
        assert centre(page, 1)[0] > centre(page, 3)[0]
        page.keyboard.press("Home")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector('.w.on[data-word="2"]')


def test_a_fix_is_drawn_soon(page, address, bare):
    """A loose bound; `scripts/benchmark_annotation.py` measures."""
    id_ = short(bare)
    go(page, address, id_)
    begin = time.monotonic()
    page.keyboard.press("Home")
    page.keyboard.press("2" if head_of(page, 1) == 0 else "r")
    page.wait_for_selector(".arc.pinned", state="attached")
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_that_parses(browser, served, scheme):
    models = Models([Model.load(f"one={served}"), Model.load(f"two={served}")])
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    page, told = context.new_page(), []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda own: told.append(own.url) if "127.0.0.1" not in own.url else None)
    with running(service_app(models)) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        page.fill("textarea", "The old cook laughed at <b>. The dog saw the cook in the garden!")
        page.keyboard.press("Enter")
        page.wait_for_selector("figure")
        assert (
            page.locator("figure").count() == 2
            and page.locator("figure b >> text=<b>").count() == 0
        )
        assert page.locator("figure li").count() >= 4 and "P(tree)" in page.inner_text("figure")
        assert page.locator("figure .column").first.is_visible()
        assert not page.locator("figure .row").first.is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(18, 24, 30)") == (scheme == "dark")
        page.select_option("select", "two")
        page.fill("textarea", "x" * 5000)
        page.click("button")
        page.wait_for_selector("figure:has-text('xxxx')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert told == []
        # what is wrong is told
        page.evaluate("document.querySelector('select').append(new Option('three'))")
        page.select_option("select", "three")
        page.click("button")
        page.wait_for_selector("#told.wrong:has-text('S677')")
    context.close()
