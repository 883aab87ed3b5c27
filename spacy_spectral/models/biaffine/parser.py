"""The network with an embedding of its own as a parser of the component; see `trees.interface`.

It sees what other models see: words, tags, morphology, word clusters and vectors. Knows nothing of spaCy.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from ...base.errors import Errors, SpectralError
from ...base.files import Array, Bytes, Float, Format, Int, Record
from ...trees.calibration import judge
from ...trees.interface import (
    TEMPERATURE,
    Clusters,
    ParserModel,
    Parses,
    Pretrained,
    Temperature,
    Vectors,
)
from ...trees.pseudoprojective import Inventory
from ...trees.sentences import Ints, Tokens, Treebank
from .embed import TokenNumbers
from .estimate import NetworkSettings, build_network, fit, flat_weights, n_weights, set_weights
from .network import Network, NetworkScores

_SIZE = Int(low=1, high=1 << 14)
_RATE = Float(low=0.0, below=1.0)
_FORMAT = Format(
    "biaffine parser",
    1,
    settings=Record(
        mix_size=_SIZE,
        scan_size=_SIZE,
        scan_depth=Int(low=0, high=64),
        arc_size=_SIZE,
        label_size=_SIZE,
        epochs=Int(low=1),
        rate=Float(above=0.0),
        batch_size=Int(low=1),
        dropout=_RATE,
        word_dropout=_RATE,
        seed=Int(),
        max_length=Int(low=2),
    ),
    temperature=TEMPERATURE,
    **TokenNumbers.FIELDS,
    inventory=Bytes(),
    weights=Array("float32", "weights"),
)


class BiaffineParser(ParserModel):
    """A trained parser; see `trees.interface.ParserModel`."""

    FORMAT = _FORMAT

    def __init__(self, lexicon: TokenNumbers, network: Network, settings: NetworkSettings):
        self.lexicon = lexicon
        self.network = network
        self.settings = settings
        self.inventory = network.inventory
        self.label_names = network.inventory.names
        self.sources = lexicon.sources

    @classmethod
    def fit(
        cls,
        treebank: Treebank,
        settings: NetworkSettings,
        *,
        dev: Treebank | None = None,
        clusters: Clusters | None = None,
        vectors: Vectors | None = None,
        pretrained: Pretrained | None = None,
        report: Callable[[str], None] = print,
    ) -> "BiaffineParser":
        """Train a parser."""
        if not len(treebank.tokens):
            raise SpectralError(Errors.S401)
        lexicon = TokenNumbers.fit(treebank.tokens, clusters=clusters, vectors=vectors)
        if pretrained is not None:
            # it sees the clusters and vectors that it has learnt with
            lexicon = pretrained.lexicon.with_strings_of(lexicon)

        def progress(epoch: int, loss: float, network: Network) -> None:
            scores = ""
            if dev is not None:
                parses = cls(lexicon, network, settings).parse(dev.tokens)
                judged = judge(parses, dev, network.inventory.names)
                scores = f", dev UAS {judged.uas:.2%}, LAS {judged.las:.2%}"
            report(f"epoch {epoch} of {settings.epochs}: loss {loss:.4f}{scores}")

        network = fit(treebank, lexicon, settings, progress=progress, pretrained=pretrained)
        return cls(lexicon, network, settings)

    @property
    def clusters(self) -> Clusters | None:  # type: ignore[override]
        return self.lexicon.clusters

    @property
    def vectors(self) -> Vectors | None:  # type: ignore[override]
        return self.lexicon.vectors

    @property
    def temperature(self) -> Temperature:  # type: ignore[override]
        return self.network.temperature

    def with_temperature(self, temperature: Temperature) -> "BiaffineParser":
        """The same parser, more or less confident."""
        network = replace(self.network, temperature=temperature)
        return BiaffineParser(self.lexicon, network, self.settings)

    def parse(self, tokens: Tokens, *, fixed: Ints | None = None) -> Parses:
        """Parse a batch of sentences; see `trees.interface.ParserModel`."""
        if tokens.sources:
            tokens.require_known(self.sources)
        return self.network.parse(self.lexicon(tokens), tokens.starts, fixed=fixed)

    def scorer(self, tokens: Tokens) -> NetworkScores:
        """Scores single arcs of sentences; see `trees.interface.ArcScorer`."""
        if tokens.sources:
            tokens.require_known(self.sources)
        return self.network.scorer(self.lexicon(tokens), tokens.starts)

    def to_payload(self) -> dict[str, Any]:
        return {
            "settings": asdict(self.settings),
            "temperature": self.temperature._asdict(),
            "inventory": self.inventory.to_bytes(),
            **self.lexicon.to_payload(),
            "weights": flat_weights(self.network.layers),
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "BiaffineParser":
        settings = read["settings"]
        _FORMAT.require(settings["scan_size"] % 2 == 0, "settings.scan_size", "is not even")
        inventory = Inventory.from_bytes(read["inventory"])
        _FORMAT.require(len(inventory) > 0, "inventory", "has no labels")
        lexicon = TokenNumbers.from_payload(read)
        # before anything is as large as the settings say
        found, wanted = (
            len(read["weights"]),
            n_weights(NetworkSettings(**settings), lexicon, inventory),
        )
        _FORMAT.require(found == wanted, "weights", f"has {found}, not {wanted}")
        network = build_network(NetworkSettings(**settings), lexicon, inventory)
        set_weights(network.layers, read["weights"])
        network.temperature = Temperature.read(read["temperature"])
        return cls(lexicon, network, NetworkSettings(**settings))
