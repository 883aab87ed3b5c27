"""All messages of the package, each with a code, in the style of `spacy.errors`.

S0xx treebanks and files, S1xx head automata and the parser, S2xx eigenwords and similarity,
S3xx tagger, S4xx arc scorers, S5xx reranker, S6xx raw text: tokens, sentences, lemmas
(S65x servers), S7xx constituents, S8xx refinement, S9xx packed forests.
"""

import operator
import re
from collections.abc import Collection
from typing import Any

_COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_CODE = re.compile(r"\[(S\d{3})\]")


class _WithCodes(type):
    """Put the code of a message in front of it: `Errors.S002` -> "[S002] ..."."""

    def __getattribute__(cls, code: str) -> str:
        message = super().__getattribute__(code)
        return message if code.startswith("__") else f"[{code}] {message}"


class SpectralError(ValueError):
    """What is wrong with data, settings or files, and what to do about it: a message of `Errors`."""

    @property
    def code(self) -> str:
        """The code of the message, e.g. "S002"; "" if it has none."""
        found = _CODE.search(str(self))
        return found[1] if found else ""


def require_settings(message: str, settings: Any, **bounds: str) -> None:
    """Raise an error, by a message with {bounds} and {found}, if a setting of an object or dictionary is
    out of its bounds, e.g. ">= 1", "> 0, <= 10" or "even, >= 2". NaN is out of any."""
    for name, bound in bounds.items():
        value = settings[name] if isinstance(settings, dict) else getattr(settings, name)
        if not all(_is_met(value, condition) for condition in bound.split(", ")):
            listed = ", ".join(
                f"{key} {' and '.join(own.split(', '))}" for key, own in bounds.items()
            )
            raise SpectralError(message.format(bounds=listed, found=f"{name} = {value}"))


def reason_of(error: Exception) -> Any:
    """What an error of the system, or another one, says, without the name of the file."""
    return (error.strerror if isinstance(error, OSError) else None) or error


def require_choice(message: str, value: Any, choices: Collection[str]) -> None:
    """Raise an error, by a message with {value} and {choices}, if a value is none of these."""
    if value not in choices:
        raise SpectralError(message.format(value=value, choices=", ".join(choices)))


def _is_met(value: Any, condition: str) -> bool:
    if condition == "even":
        return value % 2 == 0
    sign, number = condition.split()
    return _COMPARE[sign](value, float(number))


class Errors(metaclass=_WithCodes):
    S002 = (
        "Can't read {what}: the data is damaged or was not written by spacy-spectral ({reason}). "
        "Write it again, or train the model anew."
    )
    S003 = (
        "Can't read {what}: it was written by format version {found}, this spacy-spectral reads "
        "version {expected}. Train the model anew, or install the matching release."
    )
    S004 = "Can't write to '{path}': {reason}. Choose another place for the output."
    S005 = (
        "Can't read {what}: '{field}' {reason}. The data is damaged or was not written by spacy-spectral: "
        "write it again, or train the model anew."
    )
    # treebanks: a problem, then its remedy in brackets; the place is put in front by TreebankError
    S010 = "Can't read the file: {reason} (check the path)"
    S011 = "Not UTF-8: byte 0x{byte:02x} (convert the file, e.g. 'iconv -f latin1 -t utf8')"
    S012 = "No sentence in the file (is it the right file, complete?)"
    S013 = (
        "{found} columns (CoNLL-U has 10, separated by single tabs; end sentences by an empty line)"
    )
    S014 = (
        "Word id '{id}' where {expected} should follow (number the words of a sentence 1, 2, 3...)"
    )
    S015 = "Column {column} is empty (write '_' for an unspecified value)"
    S016 = "'{upos}' is not a universal part of speech (use one of UD's 17 UPOS tags or '_')"
    S017 = "Features '{feats}' are malformed (write 'Name=Value|Name=Value' or '_')"
    S018 = "Head '{head}' is not a word id (write a number, 0 for the root, '_' if it is unknown)"
    S019 = "Word {id} is its own head (write 0 if it is the root)"
    S020 = (
        "A multiword token reaches to word {last}, the sentence has {n_words} (correct its range)"
    )
    S021 = "Word {word} has head {head}, the sentence has {n_words} words (correct the head)"
    S022 = "Several roots: words {roots} (keep one, attach the others to it or split the sentence)"
    S023 = "Only one of head and relation is given (give both, or '_' for both if they are unknown)"
    S024 = "No word of the sentence has a head (annotate it or take it out)"
    S025 = "A sentence without words (take it out)"
    S026 = "A cycle of heads: {words} (attach one of these words to a word outside)"
    S027 = "No root: every word has another word as its head (give the sentence's main word the head 0)"
    S028 = (
        "Can't tell the format from the name (expected .conllu, .conll or .spacy; for constituents also "
        ".ptb, .mrg, .brackets, .export or .gold_conll)"
    )
    S029 = (
        "No .conllu, .conll or .spacy file in the directory (files of constituents, .ptb, .mrg, .brackets, "
        ".export or .gold_conll, must be named one by one; convert files of other formats)"
    )
    S030 = "Not a readable .spacy file: {reason} (make it again with 'spacy convert')"
    S031 = "The document has no dependency annotation (annotate it or take it out)"
    S032 = (
        "Word {word} is attached to a word of another sentence (correct the head or the sentence "
        "boundaries, one root to a sentence)"
    )
    S033 = (
        "The corpus has no path: give a treebank file or directory, in the config "
        "(path = ...) or on the command line (--paths.train train.spacy --paths.dev dev.spacy)."
    )
    S034 = "Unknown annotations {names} for spacy-spectral.Corpus.v1: choose from {known}."
    S035 = "'{label}' has a word beside other children (write one word, or only brackets, in each)"
    S036 = "'{token}' outside of any tree (check that the brackets are balanced)"
    S037 = "An empty constituent '({label})' (give it a word or take it out)"
    S038 = "A constituent without a label (write it after its opening bracket)"
    S039 = "The tree is not closed: {open} ')' missing (check that the brackets are balanced)"
    S040 = (
        "A line, sentence or tree of more than {most} MB (is it the right file? In CoNLL-U a sentence ends "
        "with an empty line)"
    )
    S041 = (
        "{found} columns (CoNLL-2012 has at least 6: document, part, number of the word, word, tag, tree; "
        "end sentences by an empty line)"
    )
    S042 = "'{part}' is no part of a tree (write brackets around a star: '(NP(NP*', '*' or '*))')"
    S043 = "Format {value} of Negra export can't be read (convert it to format 3 or 4)"
    S044 = "Sentence {name} has no end (write '#EOS {name}' after it)"
    S045 = "'#EOS {found}' where sentence '{name}' is to end (write the same number as in #BOS)"
    S046 = (
        "The constituent {id} is there twice (give every constituent of a sentence its own number)"
    )
    S047 = "{found} columns (this format of Negra export has {expected} or more)"
    S048 = "The parent '{id}' is no constituent of this sentence (write its number, 0 for the root)"
    S049 = "The constituent #{id} is inside of itself (correct the numbers of parents)"
    S050 = (
        "Can't use GPU {gpu}: {reason}. Install CuPy for it (e.g. pip install 'spacy[cuda12x]'), or leave "
        "--gpu-id out."
    )
    S051 = (
        "There is nothing to compare in {path}: the pipeline '{model}' ({known}) and the treebank have no "
        "tags, heads or constituents in common. Give a treebank with the annotation that the pipeline makes."
    )
    S052 = (
        "The logger can't write the report '{path}': '{corpus}' has no path, so it can't be read again. Set "
        "report to null, and use 'spacy spectral report' afterwards."
    )
    S101 = "Unknown estimator '{value}'. Choose one of: {choices}."
    S102 = "Estimation needs {bounds}, not {found}."
    S103 = "Unknown lexical model '{value}'. Choose one of: {choices}; or null for none."
    S104 = (
        "There is nothing to learn a parser from: no training sentence has heads. Check the training "
        "data with 'python -m spacy spectral check FILE'."
    )
    S105 = "A grammar needs {bounds}, not {found}."
    S110 = (
        "'{name}' parses inside sentences, but the document has no sentence boundaries. Add a component "
        "that sets them before it, e.g. 'senter' or 'sentencizer', or set token.is_sent_start yourself."
    )
    S111 = (
        "'{name}' can't use {value} as symbols: 'symbol' takes a list of token attributes such as "
        '["TAG"], ["POS"] or ["POS", "MORPH"].'
    )
    S112 = (
        "'{name}' uses {attribute} as symbol, but the document has no {attribute} annotation. Add a "
        "component that sets it before the parser (e.g. 'tagger'), or choose another attribute by the "
        "parser's setting 'symbol'. Commands: a treebank's tags are used with --gold-tags, and a text "
        'can have tags behind its words ("The_DT dog_NN").'
    )
    S113 = "'{name}' can't store {value}. The setting 'store' takes a list of: {choices}."
    S114 = (
        "'{name}' can't decode by '{value}'. Set decode = \"mbr\", in the config of a saved pipeline, too: "
        "nothing has to be trained again. The best path through hidden states ('viterbi') is gone."
    )
    S115 = (
        "'{name}' has learnt nothing yet. Train the pipeline (spacy train), call nlp.initialize with "
        "annotated examples, or load a trained pipeline."
    )
    S116 = (
        "'{name}' learns from the whole corpus when the pipeline is initialized, but with "
        "training.max_epochs = -1 spaCy passes only the first 100 examples. Set max_epochs to 1."
    )
    S117 = (
        "'{name}' learns its grammar when the pipeline is initialized, but none of the examples has "
        "dependency annotation. Pass annotated examples: nlp.initialize(lambda: examples), or train "
        "with spacy train."
    )
    S118 = (
        "'{name}' should be trained on the output of '{missing}' (setting 'annotate_with'), but the "
        "pipeline has no such component. Add it, or remove it from 'annotate_with'."
    )
    S120 = "'{name}' was asked for the {k} best parses: k must be at least 1."
    S121 = (
        "'{name}' should be trained on jack-knifed tags of '{tagger}' (setting 'jackknife'), but this "
        "is not a 'spectral_tagger'. Train the tagger first and name it in 'annotate_with' instead."
    )
    S122 = (
        "'{name}' should use the corpus '{corpus}' (setting '{setting}'), but the config has no corpus of "
        'that name. Set {setting} to null or to a corpus such as "{example}".'
    )
    S123 = (
        "'{word}' in the training sentence '{words}' has the label '{label}'. Labels must not contain "
        '"||": parsers use it to mark lifted crossing arcs. Rename the label, or give the original '
        "tree."
    )
    S150 = (
        "There is no automaton for '{value}': no head had this symbol in training. Choose one of: "
        "{known}."
    )
    S151 = "Unknown direction '{value}'. Choose one of: {choices}."
    S152 = (
        "This grammar has no automata, only a lexical model (only_lexical): nothing can be drawn."
    )
    S153 = "An automaton needs at least 1 state and a threshold between 0 and 1."
    S154 = (
        "The pipeline has no parser of this kind called '{name}'. Its components: {known}. Choose one "
        "that was made by the factory 'spectral_parser', e.g. with --component."
    )
    S155 = "{path} is not the sample treebank: its grammar has no tag '{tag}'."
    S156 = (
        "'{name}' has no head automata to draw: its model is not a grammar. Choose a parser with the "
        "architecture spacy-spectral.SHAG.v1."
    )
    S157 = (
        "The pipeline '{model}' gives no parses, so there is nothing to score. Its components: {known}. "
        "Give one with a parser."
    )
    S158 = "The text has no words. Give a text to parse."
    S159 = (
        "The style '{style}' asks the parser of the pipeline. Give it: displacy.render(doc, style='{style}', "
        "nlp=nlp), with a 'spectral_parser' in it."
    )
    S201 = "Can't find the text file '{path}'."
    S202 = (
        "Can't read '{path}': the file is truncated or damaged ({reason}). Copy or compress it "
        "again; 'gzip -t' tells whether a .gz file is whole."
    )
    S203 = (
        "Can't read '{path}': it is not valid UTF-8 ({reason}) in the line {line!r}. Convert the "
        "file, e.g. with 'iconv -f latin1 -t utf8'."
    )
    S204 = (
        "Can't read '{path}': in the line {line!r}: {reason}. Each line of a .jsonl file must be "
        'an object with "text" (a string) or "tokens" (a list of strings).'
    )
    S205 = "There are no words in the text: the files are empty or contain whitespace only."
    S206 = (
        "Only {n} of {n_types} distinct words occur at least {min_count} times; at least 2 are "
        "needed. Give more text or lower the minimum count (--min-count)."
    )
    S207 = (
        "The file '{path}' changed while it was counted. Count it again when it no longer changes."
    )
    S208 = "The window must be between 1 and {largest}, not {window}."
    S209 = (
        'Some files are tokenised (DocBin, or JSONL with "tokens") and others are raw text. Count '
        "one kind at a time, or say that the text is tokenised too (--tokenized)."
    )
    S210 = "The number of workers must be at least 1, not {workers}."
    S211 = (
        "A scheduler was given, but Dask is not installed. Install it with "
        "'pip install spacy-spectral[dask]', or leave out --scheduler."
    )
    S212 = "Can't reach the Dask scheduler '{scheduler}': {reason}."
    S213 = (
        "A window of {window} needs counts of words up to {needed} apart, but they were counted "
        "up to {counted} apart. Count again with a larger window."
    )
    S214 = (
        "Can't make vectors of {k} dimensions: the counts have rank {rank}. Choose a smaller k "
        "(-k) or give more text."
    )
    S215 = (
        "There are no eigenword clusters here: the lookups have no table '{name}'. Make them with "
        "'python -m spacy spectral eigenwords TEXT --output DIR' and load the pipeline from DIR."
    )
    S216 = (
        "There are no word vectors in '{path}'. Give the directory that 'python -m spacy spectral eigenwords "
        "TEXT --output DIR' or 'python -m spacy init vectors' wrote, or any pipeline with vectors."
    )
    S217 = "The word '{word}' has no vector: neither it nor a word that looks like it was counted."
    S218 = "Can't read the sentence pairs in '{path}', line {line}: {reason}."
    S219 = (
        "The extra columns in '{path}' do not fit: {reason}. Give a TSV file with a header line "
        "and one line of numbers per sentence pair."
    )
    S220 = (
        "The similarity model was trained with the extra columns {expected}, but got {found}. Give "
        "the same columns (--features)."
    )
    S221 = (
        "There are too few sentence pairs to train on: {n}. At least {least} are needed for "
        "cross-validation."
    )
    S222 = (
        "The pipeline has no word vectors. Make some with 'python -m spacy spectral eigenwords "
        "TEXT --output DIR', then load DIR or set initialize.vectors to it."
    )
    S223 = (
        "There are {n_features} files of features (--features) for {n_pairs} files of pairs. Give "
        "one for each."
    )
    S224 = "Can't draw a map: only {n} of the words have a vector. Give more words (--words)."
    S225 = "'{path}' is a directory: name the text files in it."
    S230 = "A worker has died: {reason} Perhaps there was not enough memory: try fewer workers (--workers)."
    S301 = (
        "There is nothing to train the tagger on: no token of the training data has a tag. Check "
        "that the corpus is annotated ([paths] train), and call initialize with real examples."
    )
    S303 = (
        "Can't add the label '{label}' to '{name}': its labels are those of the training data. Add "
        "examples with that tag and train again."
    )
    S304 = (
        "Words, tags, coarse tags and morphology of the sentences differ in number. Give one "
        'entry a word in each list, "" (or None for morphology) where it is missing.'
    )
    S305 = (
        "Can't jack-knife {sentences} sentences in {folds} folds. Take at least 2 folds and "
        "at least as many sentences."
    )
    S306 = (
        "Line {line} of the lexicon '{path}' can't be read: {reason}. A line has four columns with tabs "
        "between them: form, lemma, part of speech (UPOS), and features as Name=Value|Name=Value or '_'."
    )
    S307 = (
        "Can't read the lexicon '{path}': {reason}. Check the setting 'lexicon' of the component."
    )
    S308 = "spacy-spectral.NeuralTagger.v1 needs {bounds}, not {found}."
    S309 = (
        "The expert '{name}' is a model '{kind}', which is no tagger of spacy-spectral. Use "
        "spacy-spectral.LinearTagger.v1 or spacy-spectral.NeuralTagger.v1."
    )
    S310 = (
        "spacy-spectral.ProductTagger.v1 needs at least one expert. Give it models of spacy-spectral: "
        "LinearTagger.v1 or NeuralTagger.v1."
    )
    S311 = (
        "The lexicon '{path}' has {value!r:.80}. Lookups have the lemma of each form, or a list of its "
        'lemmas: {{"dogs": "dog"}}.'
    )
    S312 = "Linear models need {bounds}, not {found}. Change the setting of that name."
    S401 = (
        "There is nothing to train the parser on: no token has both a head and a label. Check that "
        "the training data contains dependency trees."
    )
    S402 = (
        "Sentence {sentence} (counted from 0) of the training data is no projective tree: its heads must be "
        "positions in the sentence, with one root, no cycle and no crossing arcs. Correct the annotation, or "
        "mark heads you do not know as missing."
    )
    S403 = (
        "No projective tree with one root has the fixed heads of sentence {sentence} (counted from "
        "0). Fix fewer heads, and none that cross each other, form a cycle or make a second root."
    )
    S405 = (
        "Can't fix the head of token {token} to {head}: a head is another position of the sentence "
        "(1 to {n}) or 0 for the root."
    )
    S406 = (
        "The sentences have tags that this parser does not know by number: encode them with "
        "model.encoder(), not with the encoder of another model."
    )
    S407 = (
        "Bad arcs: every token needs at least one head and a probability for each head. Heads are "
        "ascending positions in the token's own sentence (0 for the root), and not the token itself."
    )
    S408 = "The log-linear parser needs {setting} between {low} and {high}, not {value}."
    S409 = "Scores of another model ('extra') need one row of {labels} labels for each of the {arcs} arcs."
    S410 = (
        "The heads of a sentence form a cycle: {words}. Attach one of these words (counted from 1) to a "
        "word outside the cycle, or mark heads you do not know as missing."
    )
    S411 = (
        "The relation '{label}' contains \"||\", which parsers use to mark lifted crossing arcs (rename "
        "the relation, or give the original tree)"
    )
    S440 = "spacy-spectral.Biaffine.v1 needs {bounds}, not {found}."
    S441 = "spacy-spectral.{architecture} needs max_length >= 2, not {value}."
    S442 = (
        "'{name}' collects its labels when the pipeline is initialized, but with training.max_epochs = -1 "
        "spaCy passes only the first 100 examples. Write all labels to a file ('python -m spacy init "
        "labels' with another max_epochs) and read it in [initialize.components.{name}.labels] with "
        '@readers = "spacy.read_labels.v1".'
    )
    S443 = (
        "'{name}' listens to the vectors of another component (upstream '{upstream}'), but there are none. "
        "Put a 'tok2vec' or 'transformer' before it in the pipeline and run it, too, or give the parser's "
        "model a tok2vec of its own instead of a listener."
    )
    S444 = (
        "'{name}' has a model that is trained step by step: the setting '{setting}' is for models that are "
        "trained when the pipeline is initialized. Remove it."
    )
    S450 = (
        "'{model}' leaves no probabilities of heads on documents, so there is no reliability diagram. Its "
        "parser must be a 'spectral_parser' whose setting 'store' has \"head_prob\"."
    )
    S451 = "spacy-spectral.Biaffine.v2 needs {bounds}, not {found}."
    S453 = (
        "A product of parsers needs one weight for each of its experts, all at least 0 and at least one "
        "above 0. Found: {weights}."
    )
    S454 = "spacy-spectral.Product.v1 needs at least one expert. Give it models of these kinds: {choices}."
    S455 = (
        "The expert '{name}' is a model '{kind}', which is not trained when the "
        "pipeline is initialized. Use spacy-spectral.LogLinear.v1, spacy-spectral.Biaffine.v2, "
        "spacy-spectral.SHAG.v1 or spacy-spectral.Refined.v1."
    )
    S456 = (
        "'{name}' can't be calibrated: its model has no temperature. Use a model of spacy-spectral: "
        "LogLinear.v1, Product.v1, Biaffine.v1, Biaffine.v2, SHAG.v1 or Refined.v1."
    )
    S457 = "Can't calibrate: each half of the treebank needs sentences with trees. Give a larger treebank."
    S458 = (
        "A product takes at most one expert that is trained step by step (spacy-spectral.Biaffine.v1), and "
        "needs another one that is not. Found of the first kind: {names}."
    )
    S460 = "Pre-training needs {bounds}, not {found}."
    S461 = (
        "The pre-trained encoder has {name} = {found}, the network has {name} = {wanted}. Set the network's "
        "to {found}, or train another encoder by 'spacy spectral pretrain' with {wanted}."
    )
    S462 = (
        "'{name}' can't begin with a pre-trained encoder: no part of its model is "
        "spacy-spectral.Biaffine.v2. Set 'pretrained' to null."
    )
    S463 = (
        "There is no file '{path}' of a pre-trained encoder. Make one by 'spacy spectral pretrain'."
    )
    S464 = (
        "No word of the text has a word cluster. Give clusters of the text's language: a directory made by "
        "'spacy spectral eigenwords'."
    )
    S465 = "The output '{path}' is one of the texts, and would overwrite it. Give another file (--output)."
    S466 = "The training failed: {reason}. Use a lower learning rate than {rate} (--rate)."
    S467 = "Can't use '{path}' as a pre-trained encoder: {reason}"
    S468 = (
        "The first sentence of the text has more than {most} words, so nothing is left to learn from. Allow "
        "more words (--words)."
    )
    S469 = "Can't tag {path}, from the document '{first}' to '{last}': {reason}"
    S501 = "Unknown estimator '{value}' of the latent tree model. Choose one of: {choices}."
    S502 = "A latent tree model needs {bounds}, not {found}."
    S503 = (
        "There is nothing to learn a latent tree model from: no sentence has a whole tree, or all words "
        "are rare. Check that the training data contains dependency trees, and give more of them."
    )
    S504 = (
        "Tree {tree} (counted from 0) is not a tree: it needs one root (head 0) and no cycle. Correct "
        "its heads."
    )
    S505 = (
        "Trees of a sentence must have one head and one symbol for each of its {n} tokens, heads from "
        "0 (the root) to {n}."
    )
    S506 = (
        "The symbols have numbers that this tree model does not know: encode them with its own "
        "'encode', not with that of another model."
    )
    S507 = (
        "'{name}' has no tree models: it is a forest reranker, or it was trained without the features "
        "\"logp\". Train one with configs/rerank_list.cfg, whose 'model.features' includes them."
    )
    S508 = (
        "There is no trained reranker '{name}' in this pipeline (components: {known}). Train one with "
        "configs/rerank_list.cfg, or give its name with --component."
    )
    S509 = "There is no complete tree in {path}: give a treebank with dependency annotation."
    S531 = (
        "'{name}' can't rerank the parses of '{base}' ({kind}): it gives no list of parses. Set base "
        "to the name of a spectral_parser or a beam_parser of the pipeline."
    )
    S532 = (
        "'{name}' can't find the parser '{base}' in the pipeline. Set base to the name of a parser "
        "that stands before '{name}'."
    )
    S533 = (
        "'{name}' can't rerank the parses of '{base}', because '{base}' keeps heads that were set "
        "beforehand: '{name}' could not distinguish them from the heads that '{base}' found. Set "
        "constrain = false in '{base}'."
    )
    S534 = (
        "'{base}' listens to a tok2vec of the pipeline that was trained on all sentences, so '{name}' "
        "can't get parses of sentences that are new to '{base}'. Source '{base}' with replace_listeners "
        '= ["model.tok2vec"].'
    )
    S535 = (
        "'{base}' has a beam of {width}: there is nothing to choose from. Set beam_width to 2 or more "
        "in '{base}', e.g. 8."
    )
    S536 = "Unknown or no groups of features: {value}. Choose some of: {choices}."
    S537 = (
        "There is nothing to learn a reranker from: no training sentence has a gold tree and at least "
        "two candidates. Check the training data, and that n is 2 or more."
    )
    S538 = "Unknown learner '{value}' of a reranker. Choose one of: {choices}."
    S539 = "A reranker's model needs {bounds}, not {found}."
    S541 = "'{name}' needs n >= 2 candidates and a margin > 0, not n = {n}, margin = {margin}."
    S543 = (
        "'{name}' can't be trained on the parses of '{base}', whose model is trained step by step: copies "
        "of it can't be made for parts of the training data. Use the architecture LogLinear.v1 or SHAG.v1."
    )
    S544 = (
        "'{name}' is trained on parses of sentences that copies of the parser were not trained on. "
        "{sentences} sentences are too few for {folds} blocks. Give more training sentences, or set "
        "folds to a smaller number."
    )
    S601 = (
        "spacy-spectral.Corpus.v1 can put {names} on documents with the treebank's tokens only. Set "
        "gold_tokens = true, or annotations = []."
    )
    S602 = (
        "There is nothing to learn a tokenizer from: no training document has two characters without white "
        "space between them. Pass documents: nlp.initialize(lambda: examples), or train with spacy train."
    )
    S603 = (
        "The tokenizer has learnt nothing yet. Train the pipeline (spacy train), call nlp.initialize with "
        "examples, or load a trained pipeline."
    )
    S604 = (
        "Bad special case '{text}' of the tokenizer: {found}. The ORTH values of its tokens must be "
        "non-empty and together give the text. Only ORTH and NORM can be set."
    )
    S605 = (
        "There is nothing to learn sentences from: no training document has known sentence boundaries beyond "
        "its first token. Pass documents of several sentences, by nlp.initialize(lambda: examples) or "
        "spacy train."
    )
    S606 = (
        "There is nothing to learn lemmas from: no token of the training data has one. Pass annotated "
        "documents: nlp.initialize(lambda: examples), or train with spacy train."
    )
    S607 = (
        "Evaluation from raw text needs the package udtools: pip install 'spacy-spectral[ud]' or pip install "
        "udtools."
    )
    S608 = "Can't compare {path} with the parse: {reason}"
    S609 = (
        "Can't parse {path}: .spacy files have no text to begin with. Give plain text, .jsonl, CoNLL-U "
        "(each may be .gz) or bracketed trees."
    )
    S610 = "A .spacy file can't be printed. Give a directory to write to (--output)."
    S611 = "There are no files in the directory '{path}'."
    S612 = "The parse of {path} would overwrite the text itself. Give another directory (--output)."
    S613 = (
        "{one} and {other} would both become {target}. Rename one, parse them to different directories, or "
        "give a directory that both are in: its structure is kept."
    )
    S614 = "Can't parse {path}, from the document '{first}' to '{last}': {reason}"
    S615 = "Can't write parsed files to '{path}': it is no directory. Give another name (--output)."
    S616 = (
        "The files in '{path}' were parsed by another pipeline or with other options. Give another "
        "directory (--output), or parse everything again (--overwrite)."
    )
    S617 = (
        "{path} exists, but there is no record that it is a parse of this text. Give another directory "
        "(--output), or parse everything again (--overwrite)."
    )
    S618 = (
        "Can't read {path}, the record of the texts that were already parsed. Remove it and the parsed "
        "files, or give another directory (--output)."
    )
    S619 = (
        "Can't read '{path}': line {line} has more than {most} MB, but a line must fit in memory. Split "
        "it into several lines, one for each document."
    )
    S620 = (
        "CoNLL-U would contain only words: the pipeline '{model}' predicts constituents, but neither "
        "tags, lemmas nor heads. Write trees with --format brackets."
    )
    S621 = (
        "These texts changed while they were parsed, so their parses are not complete: {paths}. Run the "
        "same command again; finished files are not parsed again."
    )
    S622 = (
        "Lost the connection to the Dask scheduler: {reason}. Start the cluster again, then run the "
        "same command again; finished files are kept."
    )
    S623 = "--min-prob leaves out arcs, which the format '{format}' does not have. Use conllu, json or table."
    S624 = (
        "--min-prob needs the probabilities of arcs, and this pipeline gives none. Use one with a "
        'spectral_parser that stores "head_prob" and "dep_prob".'
    )
    S625 = (
        "The setting 'multiword' of the tokenizer is '{value}'. Choose one of: {choices}; documents hold the "
        "tokens of the text, or words."
    )
    S640 = (
        "spacy-spectral.{model} can't learn from silver trees. Set 'silver_corpus' to null, or use "
        "spacy-spectral.LogLinear.v1, Biaffine.v2 or a product of these."
    )
    S641 = (
        "{path}, the sentence at line {line}: can't read the probabilities '{misc}' of word {word}. They are "
        "written as HeadProb=0.9|DepProb=0.9|Alt=3:obj:0.1, by 'spacy spectral parse --probs'."
    )
    S642 = (
        "{path}, the sentence at line {line}: word {word} has no probabilities, but 'min_prob' chooses "
        "sentences by them. Parse the text with 'spacy spectral parse --probs', or set 'min_prob' to 0."
    )
    S643 = "The setting '{setting}' of spacy-spectral.Silver.v1 must be {bounds}, not {value}."
    S644 = (
        "{component} has not learnt from a treebank '{source}', so it can't follow its conventions. Set "
        "'source' of {component} to one of those that it knows ({known}), or to null."
    )
    S645 = "{path}: the config has no spectral_parser that could be taught. Use e.g. configs/pipeline.cfg."
    S646 = (
        "{path}: 'corpora.{name}.path' is not what was given. Write path = ${{paths.{name}}} in the block "
        "[corpora.{name}]."
    )
    S647 = (
        "{path} has pipelines that were not taught there. Give another --output, or --overwrite to replace "
        "them."
    )
    S648 = "{path} is damaged. Give another --output, or --overwrite to begin anew."
    S649 = (
        "{path} was begun with something else ({names}). Give another --output, or --overwrite to begin "
        "anew."
    )
    S650 = (
        "Can't listen on {host}, port {port}: {reason}. Give another --port, or stop what uses it."
    )
    S651 = (
        "Servers need packages that are not installed ({names}). Install them: "
        "pip install 'spacy-spectral[serve]'."
    )
    S660 = (
        "No sentence can begin with word {word}: it is the first, or inside of a multiword token."
    )
    S661 = "Word {word} can't be cut there: choose a place between two of its letters."
    S662 = (
        "Word {word} can't be joined with the next one: white space, an empty node or the border of a "
        "multiword token is between them, or there is no next word."
    )
    S663 = "{path} is being annotated by another process. Go on in its page, or end it first."
    S664 = (
        "{path} was changed by another program since it was annotated. Nothing was written. Put back what "
        "was there, or annotate the changed file as a new one: INPUT {path}, with another --output."
    )
    S665 = (
        "{path} is there already, and there is no journal of its annotation ({journal}). Choose another "
        "--output, or move the file away."
    )
    S666 = (
        "{journal} is of another input, or the input has changed. Choose another --output; or, to go on with "
        "what {path} has, name {path} as the input, too."
    )
    S667 = (
        "{path}:{line}: can't read the journal ({reason}). Lines before it are whole: restore the file from "
        "a copy, or cut it off before that line."
    )
    S668 = (
        "The pipeline has no spectral_parser (it has: {known}). Annotating needs one: train one, or start "
        "without --model."
    )
    S669 = (
        "The pipeline can't be trained as a whole: component '{name}' learns step by step. Use one like "
        "configs/pipeline.cfg, or --no-learning."
    )
    S670 = "There is no such sentence any more: it was joined with another one, or undone. Reload the page."
    S671 = (
        "Word {word} ('{form}') has no head, label or part of speech yet. Give it one, or skip the sentence: "
        "what was fixed is kept."
    )
    S672 = "The first sentence has none before it."
    S673 = "There is nothing to undo or redo."
    S674 = "Nothing was changed: '{name}' is missing or not a possible value here."
    S675 = "{path} has no sentence to annotate."
    S676 = "Two models have the name '{name}'. Give one of them another: NAME=MODEL."
    S677 = "There is no model '{name}' here. Choose one of: {known}."
    S678 = "'{name}' can't be {value}. It may be: {allowed}."
    S679 = "The request has no '{name}'."
    S680 = "A text may have {most:,} characters, this one has {found:,}. Send it in parts."
    S681 = "The model '{model}' has no {what}, so that '{name}' is not possible with it."
    S682 = "Sentence {number} of the input: {reason}"
    S683 = "The CAS can't be read: {reason}."
    S684 = (
        "Layer '{layer}' with the feature '{feature}' can't be predicted here. These can: {known}."
    )
    S685 = (
        "This recommender does not learn. In INCEpTION, untick 'Trainable' in its settings; to learn from "
        "annotation, use 'spacy spectral annotate'."
    )
    S686 = (
        "The answer took more than {seconds:g} seconds. Send less text at once, or fewer requests."
    )
    S687 = "Too many requests are waiting. Try again later."
    S688 = (
        "The pipeline '{model}' stores no probabilities to order sentences by: it needs a spectral_parser "
        "(it has: {known})."
    )
    S701 = "Unknown estimator '{value}' of a grammar with states. Choose one of: {choices}."
    S702 = "A parser for constituents needs {bounds}, not {found}."
    S703 = (
        "There is nothing to learn a parser for constituents from: no training document has a tree with "
        "words. Give trees (.ptb, .mrg, .brackets, .export, .gold_conll) to the reader "
        "spacy-spectral.Corpus.v1, or check the training data with 'python -m spacy spectral check FILE'."
    )
    S704 = "'{name}' can't keep {value} trees of a sentence: set nbest to 0 or more."
    S705 = "Unknown format '{value}'. Choose one of: {choices}."
    S708 = (
        "The pipeline '{model}' finds no constituents: it has no trained 'spectral_constituency'."
    )
    S709 = (
        "Bad weights of a product of parsers for constituents: it needs three, of anchored rules, of the "
        "grammar with states and of spans, between 0 and 100, and a temperature between 0.01 and 100."
    )
    S710 = (
        "The model '{name}' can't be 'neural' of a product of parsers for constituents. Name "
        "'spacy-spectral.NeuralSpan.v1' there."
    )
    S711 = "Style '{style}' draws documents and spans: leave 'manual' out, and give no dicts."
    S712 = (
        "This model can't look at arcs: it has no anchored rules. Leave 'annotate_with' empty, or choose "
        "'spacy-spectral.ConstituencyProduct.v1' or 'spacy-spectral.SpanCRF.v1'."
    )
    S713 = (
        "'{name}' has learnt from arcs, and a document has none: put a trained parser for dependencies "
        "before it, as in the pipeline that it was trained in, or train it with 'annotate_with = []'."
    )
    S714 = (
        "'{name}' collects symbols and rules from all trees when the pipeline is initialized, but with "
        "training.max_epochs = -1 spaCy passes only the first 100 examples. Set max_epochs to 0 (as many "
        "as it takes) or more."
    )
    S801 = "Unknown labelling '{value}' of a refined grammar. Choose one of: {choices}."
    S802 = "A refined grammar needs {bounds}, not {found}."
    S803 = (
        "'{name}' can't find sub-tags with the model '{model}'. Set its model to "
        '@architectures = "spacy-spectral.Refined.v1".'
    )
    S804 = "Unknown model of children '{value}'. Choose one of: {choices}."
    S805 = (
        "There is no refined grammar in this pipeline (components: {known}). Train one with "
        "configs/refined.cfg, or give the name of a 'spectral_refiner', or of a 'spectral_parser' by "
        "spacy-spectral.Refined.v1, with --component."
    )
    S806 = "The refined grammar has no tag '{tag}'. It has: {known}."
    S807 = (
        "'{name}' can't use the grammar of '{parser}': it has no sub-tags. Set the setting 'parser' of "
        "'{name}' to a spectral_parser with spacy-spectral.Refined.v1, or to null."
    )
    S808 = (
        "A refined grammar of {states} states of {tags} tags is too large for these data. Set fewer states, "
        "or fewer tags (max_symbols)."
    )
    S809 = (
        "The parameters of the infinite tree are not drawn any more: that gained nothing. Set resample = "
        "false, in the config of a saved pipeline, too: nothing has to be trained again."
    )
    S901 = (
        "This packed forest needs tables of {cells} cells to eliminate its variables, more than {most}. "
        "Keep fewer values of each variable (a higher threshold), or give fewer conditions that connect "
        "variables far apart."
    )
    S902 = "Variable {variable} of a packed forest has no values: give it one at least."
    S903 = "A condition on the variables {scope} of a packed forest does not fit: {reason}."
    S904 = "A packed forest has {expected} properties, but got {found} weights. Give one for each."
    S905 = (
        "There is no tree in the packed forest: its no-goods forbid every assignment. Ask its method "
        "'contradiction' which of them can't hold together, and take one away."
    )
    S906 = "There is nothing to learn from: no packed forest has an observation."
    S907 = "Line {line} of a packed forest can't be read: {reason}."
    S909 = "This is no hypergraph: {reason}."
    S910 = (
        "Bad arcs of a sentence of {n} tokens (there may be 1 to {most}): every token needs a head at least, "
        "another position of the sentence or 0 for the root; arcs come by modifier, then by head."
    )
    S911 = "A forest reranker needs 1 to 64 templates for each of six kinds of units."
    S912 = "A forest reranker needs {bounds}, not {found}."
    S913 = (
        "There is nothing to learn a forest reranker from: no training sentence has a gold tree and arcs to "
        "choose from. Check the training data."
    )
    S914 = (
        "'{name}' needs the packed forest of a 'spectral_parser', but '{base}' is not one. Set base to "
        "the name of a 'spectral_parser', or model to spacy-spectral.Reranker.v1."
    )
    S915 = (
        "{condition} can't be met: its tokens must be different words of one sentence of the document, "
        "and its label must be one of the parser's labels: {labels}."
    )
    S916 = "No projective tree with one root meets these conditions together: {conditions}. Drop one of them."
    S917 = (
        "There are {ways} ways to meet these conditions, more than {most}. Give fewer conditions that "
        "involve several tokens of one sentence."
    )
    S918 = (
        "{condition} is about a sentence of {n} tokens; conditions can be put on sentences of up to {most}. "
        "Put sentence boundaries into the text, e.g. by 'spectral_senter'."
    )
    S919 = (
        "{value} is no condition on a tree. Use HeadIs, HeadIsNot, RootIs, LabelIs, SameHead and NoCrossing "
        "from spacy_spectral.forest.conditions."
    )
    S920 = (
        "'{name}' chooses from lists and can't use conditions. Ask its parser '{base}', or use the "
        "model spacy-spectral.ForestReranker.v1."
    )
    S921 = (
        "A forest reranker has no experts any more: they gained nothing. Set experts = null and train it "
        "anew. To use another parser, too, rerank a spacy-spectral.Product.v1 of both."
    )


class Warnings(metaclass=_WithCodes):
    W101 = (
        "'{name}': {missing} of {tokens} training tokens have no head. The annotated parts of their "
        "sentences are still used for training."
    )
    W102 = (
        "'{name}': the fixed heads can't all be part of one projective tree with one root. They are "
        "ignored in: {words}"
    )
    W103 = (
        "'{name}': the corpus '{corpus}' (setting 'dev_corpus') has no heads, so it can't decide when "
        "to stop training. Set dev_corpus to null, or to a corpus with dependency annotation."
    )
    W110 = (
        "There is an extension attribute {lower}._.{name} that does not belong to spacy-spectral. It is "
        "kept, so spacy-spectral's value of that name can't be read. To read it, rename your attribute, "
        "or call {kind}.remove_extension('{name}') and spacy_spectral.register_extensions()."
    )
    W111 = (
        "'{name}' was trained as a whole when its pipeline was initialized: nlp.update teaches it nothing, "
        "its loss stays 0. To learn from other examples, train again with all of them (spacy train, or "
        "nlp.initialize). If it is only to annotate, name it in training.frozen_components, or leave it out: "
        "nlp.update(..., exclude=['{name}'])."
    )
    W401 = (
        "The log-linear parser learns nothing from {skipped} of {sentences} training sentences: their "
        "annotation does not agree with any projective tree of the arcs that the pruner keeps."
    )
    W440 = (
        "'{name}': {unused} of {sentences} training sentences teach no heads: they are longer than "
        "max_length, or no projective tree with one root has their heads."
    )
    W501 = (
        "'{name}' was sourced from another pipeline, and spaCy's own '{base}' does not know its "
        "pipeline, so '{name}' still uses the parser of its first pipeline. Call "
        "nlp.get_pipe('{name}').attach(nlp) to use the parser of this pipeline."
    )
    W700 = (
        "'{name}': {unused} of {trees} training trees teach nothing: their words are not the tokens that the "
        "pipeline makes, or there are more than 300. If that is too many, set 'gold_tokens = true' in "
        "[corpora.train], to learn from the treebank's own tokens."
    )
