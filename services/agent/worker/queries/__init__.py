"""One query through the pipeline: inputs, stages around predict, outputs, scores."""
