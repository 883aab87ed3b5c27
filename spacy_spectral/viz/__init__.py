"""What a person looks at: trees, automata and maps of words as SVG and HTML."""
