"""What everything stands on: errors, files, learnt attributes of Thinc models, progress, kernels' memory."""
