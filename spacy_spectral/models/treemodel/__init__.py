"""The latent tree model: hidden states of nodes, estimated by moments, and the scores of trees under it."""
